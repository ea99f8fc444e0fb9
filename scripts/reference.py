"""Writes docs/reference.md from the tables that the program itself runs by.

Run by whoever changes a table, a text, an error or a command: prints the page; ``--write`` puts it into docs,
``--check`` exits with 1 when the committed page is not the present one. It must not say anything of its own that could
be read off the code.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import click

import readback
import readback.errors as errors
from readback import recipes, systems
from readback.adapters.cel.functions import FUNCTIONS
from readback.adapters.cel.values.moments import ACCESSORS
from readback.canon import limits
from readback.cli.actions.state_help import CODES
from readback.cli.cli import COMMANDS, EXIT_CODES, main
from readback.client.authoring.action import ActionDefinition
from readback.contracts.options import APPROVAL_KEYS, EXECUTE_KEYS, OPTION_KEYS
from readback.domain.action.claim import ADVICE, REASONS, Claim
from readback.domain.context import Context
from readback.domain.contract.limits import TenantLimits
from readback.domain.grounding.report import FAULTS, OPEN_FAULTS
from readback.domain.idempotency import KeyStatus
from readback.domain.verification.observation_signs import ObservationStatus
from readback.log import fault
from readback.ports.predicates import ROOTS
from readback.traces.format import fault as trace_fault
from readback.traces.format.codes import CHECKS
from readback.traces.format.codes import CODES as TRACE_CODES

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import reference_domain as domain  # noqa: E402
from scripts.reference_markdown import (  # noqa: E402
    anchor,
    constants,
    first_sentence,
    meanings,
    prose,
    span,
    table,
    vocabulary,
    words,
)
from scripts.reference_words import (  # noqa: E402
    ACCESSORS_MEANING,
    KEYS,
    LIMITS,
    OPERATORS,
    ROOT_MEANINGS,
    WORDS,
)

PAGE = ROOT / "docs" / "reference.md"
RECIPE_PARTS = ("HttpReceipts", "Resource", "SqlReceipts", "Table", "Timings")
"""What a recipe is given or gives back; its other names are types for annotations."""
HEAD = """\
# Reference

<!-- made by scripts/reference.py from the tables; edit those, not this page -->

Everything here is read off the tables by which the program runs, and a test holds the two equal. A row marked *ours* is
an addition to the action verification specification; the rest is as printed there. What the words mean is in
[concepts](concepts.md)."""


def page() -> str:
    """The whole reference as markdown."""
    sections: list[tuple[str, Callable[[], Iterable[str]]]] = [
        ("Python names", _names),
        ("Keys of a contract", _keys),
        ("Expressions", _expressions),
        ("Kinds of operation", domain.kinds),
        ("Side-effect classes", domain.classes),
        ("Readings", domain.readings),
        ("What a tool's answer says", lambda: [vocabulary(ObservationStatus)]),
        ("Verdicts", domain.verdicts),
        ("States", domain.states),
        ("Discrepancies", domain.discrepancies),
        ("Findings", domain.findings),
        ("Recovery table", domain.recovery),
        ("What may be said", domain.texts),
        ("Idempotency records", lambda: [vocabulary(KeyStatus, "status")]),
        ("Claims", _claims),
        ("Reasoning traces", _traces),
        ("Final reports", _reports),
        ("Errors", _errors),
        ("Command line", _commands),
        ("Environment and settings", _environment),
        ("Limits", _limits),
    ]
    contents = [f"- [{title}](#{anchor(title)})" for title, _ in sections]
    parts = [HEAD, "\n".join(contents)]
    parts += [f"## {title}\n\n" + "\n".join(lines()).strip() for title, lines in sections]
    return "\n\n".join(parts) + "\n"


# --- Python and contracts ---


def _names() -> Iterator[str]:
    yield "From `readback`, all of them promised:\n"
    rows = [
        (f"`{name}`", first_sentence(getattr(readback, name))) for name in sorted(readback.__all__) if name[0] != "_"
    ]
    yield table(("name", "what it is"), [*rows, ("`__version__`", "The version of the package.")])
    yield "From `readback.systems`, the built-in executors (which act) and sources (which read):\n"
    yield table(("name", "what it is"), [(f"`{n}`", first_sentence(getattr(systems, n))) for n in systems.__all__])
    yield "From `readback.recipes`, ready actions of the usual shapes:\n"
    made = [n for n in recipes.__all__ if n[0].islower() or n in RECIPE_PARTS]
    yield table(("name", "what it is"), [(f"`{n}`", first_sentence(getattr(recipes, n))) for n in made])
    yield "Methods of `Readback`; those of `AsyncReadback` are the same, to be awaited but for `open` and `signal`:\n"
    yield table(("method", "does"), _methods(readback.Readback))
    yield from _outcome()
    yield "What a decorated function offers:\n"
    yield table(("name", "does"), _methods(ActionDefinition))
    yield prose(
        "Errors are in `readback.errors`, those that agents meet in `readback.agent_errors`, those of traces in "
        f"`{trace_fault.__name__}`, those of evidence "
        f"in `{fault.__name__}`; virtual time, simulated worlds, "
        "conformance suites and drills in "
        "`readback.testing`."
    )


def _outcome() -> Iterator[str]:
    outcome = readback.Outcome
    own = [name for name in vars(outcome) if not name.startswith("_") and name not in outcome.__slots__]
    called = [f"{name}()" if inspect.isfunction(vars(outcome)[name]) else name for name in own]
    for title, name, listed in (
        ("What an `Outcome` says:", "Outcome", [*outcome.__slots__, *called]),
        ("What a `SagaOutcome` says beside that:", "SagaOutcome", readback.SagaOutcome.__slots__),
        ("What a `StepOutcome`, one of its `steps`, says:", "StepOutcome", _own(readback.StepOutcome)),
        ("What a `Context`, the first parameter of each function of a contract, says:", "Context", Context.__slots__),
    ):
        # In the order of the words, which is that of use, and not of the class.
        known = meanings(name, listed)
        yield f"{title}\n"
        yield table(("name", "meaning"), [(f"`.{word}`", known[word]) for word in WORDS[name]])


def _own(of: type) -> list[str]:
    """The names that a class itself has, methods with parentheses."""
    named = [name for name in vars(of) if not name.startswith("_")]
    return [f"{name}()" if inspect.isfunction(vars(of)[name]) else name for name in named]


def _methods(of: type) -> Iterator[tuple[str, str]]:
    for name, thing in vars(of).items():
        bare = getattr(thing, "__func__", thing)
        if name.startswith("_"):
            continue
        if isinstance(thing, property):
            yield f"`.{name}`", first_sentence(thing)
        elif inspect.isfunction(bare):
            parameters = [p for p in inspect.signature(bare).parameters.values() if p.name not in ("self", "cls")]
            shown = [f"{p.name}=" if p.kind is p.KEYWORD_ONLY else str(p).partition(":")[0] for p in parameters]
            yield f"`.{name}({', '.join(shown)})`", first_sentence(bare)


def _keys() -> Iterator[str]:
    expected = {*OPTION_KEYS, *(f"execute.{key}" for key in EXECUTE_KEYS)}
    expected |= {f"approval.{key}" for key in APPROVAL_KEYS}
    if set(KEYS) != expected:
        raise SystemExit(f"scripts/reference_words.py differs from the keys there are: {sorted(set(KEYS) ^ expected)}")
    yield prose(
        "Given to `@action(...)` and `@name.compensate(...)`. A key that does not exist is an error, and all faults of "
        "a contract are named at once, when it is loaded. A *duration* is text with its unit (`500ms`, `10s`, `1m30s`, "
        "`2h`) or a `timedelta`; a bare number is refused. A *condition* is an expression, or a Python callable whose "
        "parameters are roots. A *template* takes `{requested.x}`, `{intended.x}`, `{observed.x}` and `{scope.x}`."
    )
    yield table(("key", "takes", "without it", "meaning"), [(f"`{name}`", *key) for name, key in KEYS.items()])
    yield prose(
        "Beside the keys, a contract has functions: `.read` (one or more readers), `.find` (every effect that bears "
        "the stamp, wherever it landed), `.lookup` (what became of the attempt with this key), `.compensate` (an "
        "action that reverses this one), `.rollback` (puts a local boundary back). `.twin` says where a drill may try "
        "the action out."
    )


def _expressions() -> Iterator[str]:
    yield prose(
        "Expressions are written in a strict subset of CEL, and read by an engine of this project. They see these "
        "roots and nothing else; absence is `authoritative == null`."
    )
    yield table(("root", "holds"), [(f"`{root}`", ROOT_MEANINGS[root]) for root in ROOTS])
    yield prose(
        "An expression is true, false or undetermined. Whatever does not come out as true or false is undetermined: a "
        "missing field, a wrong type, a text compared with a number. A part that settles the whole does so whatever is "
        "undetermined beside it: `false && x` and `x && false` are false, `true || x` and `x || true` are true. The "
        "opposite of undetermined is undetermined, and null is never true."
    )
    yield "From the loosest to the tightest, with brackets round what comes first:\n"
    yield table(("written", "means"), [(f"`{form}`", text) for form, text in OPERATORS.items()])
    yield prose(
        "Numbers are exact: whole numbers of any size, and decimals; a JSON number is what its text says. `0.1 + 0.2 "
        "== 0.3` is true, `1 == 1.0` is true, and a whole number is divided without its rest. What has no exact "
        "result, as `1.0 / 3`, is undetermined; nothing is rounded. Two kinds are not compared, also in "
        "`in` and inside lists and objects; null may be compared with anything. "
        "A text is written `'...'`, `\"...\"`, in three quotes, or as "
        "`r'...'` without escapes; bytes as `b'...'`; a number as `1`, `0x1F`, `1.5`, `1e3`; a list as `[1, 2]`; an "
        "object as `{'a': 1}`. A remark begins with `//`."
    )
    yield "Functions:\n"
    said = {name: each.says.partition(": ") for name, each in FUNCTIONS.items()}
    rows = [(said[name][0], said[name][2]) for name in FUNCTIONS if name not in ACCESSORS]
    parts = ", ".join(f"`t.{name}()`" for name in ACCESSORS)
    yield table(("function", "gives"), [*rows, (parts, ACCESSORS_MEANING)])
    yield prose(
        f"An expression has at most {limits.EXPRESSION_MAX_BYTES:,} bytes, "
        f"{limits.EXPRESSION_DEPTH_MAX_LEVELS} levels of brackets, {limits.EXPRESSION_NESTED_LOOPS_MAX} loops in each "
        f"other and {limits.EXPRESSION_ADDITIONS_MAX} signs of `+`. One evaluation takes at most "
        f"{limits.EXPRESSION_WORK_MAX:,} steps: about one for a character that is looked at, 128 for "
        "a value that is visited. The steps of a function or a loop are taken before it begins; where they "
        "would be too many, the expression is undetermined."
    )
    yield prose(
        "Not part of the language: messages, optional values, unsigned numbers as a type of their own (`1u` is `1`), "
        "infinity, keys of objects that are true or false, names of time zones (write an offset), and other methods of "
        "texts. Each is refused at load with what to write instead."
    )


# --- errors ---


def _claims() -> Iterator[str]:
    yield "What a `Claim` says:\n"
    own = [name for name in vars(Claim) if not name.startswith("_") and name not in Claim.__slots__]
    called = [f"{name}()" if inspect.isfunction(vars(Claim)[name]) else name for name in own]
    known = meanings("Claim", [*Claim.__slots__, *called])
    yield table(("name", "meaning"), [(f"`.{word}`", known[word]) for word in WORDS["Claim"]])
    yield "Why something is said of a claim. The confidence is a figure of this table, and no measurement:\n"
    rows = [(f"`{name.value}`", row.words, row.confidence, f"`{row.advice.value}`") for name, row in REASONS.items()]
    yield table(("reason", "it was contested, retracted or reinstated, since", "confidence", "recommended"), rows)
    yield prose("What is reinstated is recommended as `go_on`, whoever said so.")
    yield table(("recommended", "means"), [(f"`{name.value}`", text) for name, text in ADVICE.items()])


def _traces() -> Iterator[str]:
    yield prose(f"The checks of `readback trace verify`, in their order: {words(CHECKS)}.")
    yield "Every code of a failure:\n"
    rows = [(f"`{name}`", words(c.checks), c.invariant or "", c.meaning) for name, c in TRACE_CODES.items()]
    yield table(("code", "fails", "invariant", "means"), rows)


def _reports() -> Iterator[str]:
    yield "What can be wrong with a final report at one place:\n"
    rows = [(f"`{name.value}`", text, "cannot be told" if name in OPEN_FAULTS else "") for name, text in FAULTS.items()]
    yield table(("code", "means", ""), rows)


def _errors() -> Iterator[str]:
    yield prose(
        "Every error is a `ReadbackError` with a stable `code`, an `exit_code`, a `message`, a `remedy` and `details`."
    )
    yield table(("error", "code", "exit code", "means", "what to do"), _error_rows())
    yield "Finer codes, where an error is raised with one in place of its class's:\n"
    yield prose(f"{words(sorted(_finer_codes()))}.")
    yield "Not errors, but outcomes with a `code`: why something was not executed, or not gone on with.\n"
    yield table(("code", "means"), [(f"`{code}`", text) for code, text in CODES.items()])


def _error_rows() -> Iterator[tuple[object, ...]]:
    kinds = sorted(set(_tree(errors.ReadbackError)), key=lambda kind: kind.code)
    for each in kinds:
        exit_code = "its state's" if each is errors.NotVerifiedError else each.exit_code
        yield f"`{each.__name__}`", f"`{each.code}`", exit_code, first_sentence(each), each.remedy_default


def _tree(of: type[errors.ReadbackError]) -> Iterator[type[errors.ReadbackError]]:
    yield of
    for below in of.__subclasses__():
        if below.__module__.startswith("readback."):
            yield from _tree(below)


_CODE = re.compile(r"(tool|store|settings|expression)\.[a-z-]+")


def _finer_codes() -> set[str]:
    """Codes that are given where an error is raised. What `ledger verify` and the demo find are not errors."""
    own = {each.code for each in _tree(errors.ReadbackError)}
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        if path.name == "log.py" or "demo" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
                found.add(node.value)
    return found - own


# --- the command line and its surroundings ---


def _commands() -> Iterator[str]:
    yield "What a command answers goes to stdout, as one JSON value with `--json`; progress and errors go to stderr.\n"
    yield prose(EXIT_CODES.replace("\b", ""))
    for name, command in [("readback", main), *_all_commands()]:
        yield f"### `{name}`\n\n```text\n{_help(command, name)}\n```\n"


def _all_commands() -> Iterator[tuple[str, click.Command]]:
    for name, (home, _) in COMMANDS.items():
        module, _, attribute = home.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        yield from _with_all_below(f"readback {name}", command)


def _with_all_below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            yield from _with_all_below(f"{name} {below}", each)


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    context.help_option_names = ["-h", "--help"]
    return command.get_help(context).rstrip()


def _environment() -> Iterator[str]:
    yield prose(
        "What is given in the program or by a flag wins over the environment, the environment over files, files over "
        "the defaults. The files are `config.toml` in the user's configuration folder for Readback, and "
        "`readback.toml` in the working folder, which counts only where the former pins its SHA-256 under `[trusted]`: "
        "an agent may be able to write there."
    )
    config = importlib.import_module("readback.config")
    rows = [
        ("`READBACK_URL`", "`url`", "the ledger", f"`{config.URL_DEFAULT}`"),
        ("`READBACK_TENANT`", "`tenant`", "whose actions", f"`{config.TENANT_DEFAULT}`"),
        ("`READBACK_PRINCIPAL`", "`principal`", "who acts", f"`{config.PRINCIPAL_DEFAULT}`"),
        ("`READBACK_CONTRACTS`", "`contracts`", "modules with contracts, apart by commas; a list in files", "none"),
        ("`READBACK_SCOPES`", "`scopes`", "the permission scopes held, apart by commas; a list in files", "none"),
        ("", "`[limits]`, `[limits.TENANT]`", "what tenants may take: " + _tenant_limits(), "no limit"),
        ("`READBACK_SIGNING_KEY_FILE`", "`signing_key_file`", "the file of the log's own key, for checkpoints", "none"),
        ("`READBACK_DEBUG`", "", "the whole trace of an unexpected error", "off"),
    ]
    yield table(("variable", "in files", "says", "default"), rows)


def _tenant_limits() -> str:
    return ", ".join(f"`{each.name}`" for each in fields(TenantLimits))


LIMITED = (
    "canon.limits", "domain.contract.watch", "domain.contract.approval", "domain.contract.approval",
    "domain.belief.text",
    "audit.feedback.findings",
    "domain.contract.contract", "domain.outcome.reporting", "contracts.options", "contracts.options",
    "contracts.templates", "domain.saga.fold", "domain.saga.planner",
    "engine.schedule", "engine.stages.verify", "engine.values.reader_results", "engine.stages.execute",
    "engine.run", "systems.sql.source", "systems.files.source", "systems.mail.source", "systems.mail.executor",
    "systems.sql.executor", "traces.format.fault", "domain.grounding.report",
)  # fmt: skip
"""The modules whose limits a user can meet."""
_LIMIT = re.compile(r"^[A-Z][A-Z_]*_(MAX|MAX_[A-Z]+|FIRST_US|MARGIN_US|KEPT_US|GRACE_US)$")


def _limits() -> Iterator[str]:
    yield "Each is a named constant.\n"
    rows, missing, unused = [], [], set(LIMITS)
    for name in LIMITED:
        module = importlib.import_module(f"readback.{name}")
        for constant, own in constants(module).items():
            value = vars(module).get(constant)
            if not _LIMIT.match(constant) or type(value) is not int:
                continue
            said = LIMITS.get(f"{name}.{constant}", "") or own
            shown = span(value) if constant.endswith("_US") else f"{value:,}"
            rows.append((f"`{constant}`", shown, said, f"`{name}`"))
            missing += [] if said else [f"{name}.{constant}"]
            unused.discard(f"{name}.{constant}")
    if missing or unused:
        raise SystemExit(f"scripts/reference_words.py says nothing of {missing}, and needs nothing of {unused}")
    yield table(("limit", "value", "of what", "where"), rows)


def run(argv: Sequence[str] | None = None) -> int:
    """0 when done or equal, 1 when the committed page differs."""
    parser = argparse.ArgumentParser(description="docs/reference.md, from the tables.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--check", action="store_true", help="exit with 1 if the committed page is old")
    group.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args(argv)
    made = page()
    if options.write:
        PAGE.write_text(made, encoding="utf-8")
    elif options.check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != made:
            print("docs/reference.md is out of date; run: python scripts/reference.py --write", file=sys.stderr)
            return 1
    else:
        print(made, end="")
    return 0


if __name__ == "__main__":
    sys.exit(run())
