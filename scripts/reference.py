"""Write the reference (docs/reference.md and docs/reference/) from the program's own tables.

Run this script with ``--write`` after a change of a table, a text, an error or a command. ``--check`` exits with 1 if a
committed page is out of date. Facts in the code are read from the code and not repeated here.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import click

import readback
import readback.errors as errors
from readback import recipes, systems
from readback.adapters.cel.functions import FUNCTIONS
from readback.adapters.cel.values.moments import ACCESSORS
from readback.assurance import faults as gates_fault
from readback.canon import limits
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
from readback.views.state_help import CODES

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

DOCS = ROOT / "docs"
INDEX = "reference.md"
RECIPE_PARTS = ("HttpReceipts", "Resource", "SqlReceipts", "Table", "Timings")
"""Parameters and results of recipes. The module's other names are types for annotations."""
MADE = "<!-- made by scripts/reference.py from the tables; edit those, not this page -->"
HEAD = f"""\
# Reference

{MADE}

Ten pages list every name, key, state, error, command and limit of Readback. The pages are made from the program's own
tables, and a test compares the two. A row marked *ours* is an addition to the action verification specification. The
other rows of the same tables are as printed in the specification. The terms are explained in
[concepts](concepts.md). The docstrings of the Python names, with examples, are in the [Python API](api.md)."""


@dataclass(frozen=True)
class Page:
    """One page of the reference: a title, an opening sentence, and the sections with the functions that make them."""

    title: str
    opening: str
    sections: tuple[tuple[str, Callable[[], Iterable[str]]], ...]


def pages() -> dict[str, Page]:
    """Return the ten pages by file name, in the order of the index."""
    return {
        "python.md": Page("Python names", "Every public name of the package.", (("Public names", _names),)),
        "contracts.md": Page(
            "Contracts",
            "The keys of a contract, and the values that some keys accept.",
            (
                ("Keys of a contract", _keys),
                ("Kinds of operation", domain.kinds),
                ("Side-effect classes", domain.classes),
            ),
        ),
        "expressions.md": Page(
            "Expressions", "The language of conditions and postconditions.", (("The language", _expressions),)
        ),
        "readings.md": Page(
            "Readings and findings",
            "The result of a reading, of a comparison with the intent, and of the comparison's evaluation.",
            (
                ("Readings", domain.readings),
                ("What a tool's answer says", lambda: [vocabulary(ObservationStatus)]),
                ("Verdicts", domain.verdicts),
                ("Discrepancies", domain.discrepancies),
                ("Findings", domain.findings),
            ),
        ),
        "states.md": Page("States", "The states of an action, and every transition.", (("All states", domain.states),)),
        "recovery.md": Page(
            "Recovery",
            "The next step for each finding, and the records of keys.",
            (
                ("Recovery table", domain.recovery),
                ("Idempotency records", lambda: [vocabulary(KeyStatus, "status")]),
            ),
        ),
        "outcomes.md": Page(
            "Outcomes, claims and reports",
            "The wordings of outcomes, the status of claims, and the codes of trace and report checks.",
            (
                ("What may be said", domain.texts),
                ("Claims", _claims),
                ("Reasoning traces", _traces),
                ("Final reports", _reports),
            ),
        ),
        "errors.md": Page("Errors", "Every error and every stable code.", (("All errors", _errors),)),
        "command-line.md": Page(
            "Command line", "Every command with its help text.", (("Commands and exit codes", _commands),)
        ),
        "settings.md": Page(
            "Settings and limits",
            "Environment variables, settings files, and the limits of the program.",
            (("Environment and settings", _environment), ("Limits", _limits)),
        ),
    }


def documents() -> dict[str, str]:
    """Return the text of the index and of each page, by path below docs."""
    made = pages()
    rows = [
        (f"[{page.title}](reference/{name})", ", ".join(_link(name, title) for title, _ in page.sections))
        for name, page in made.items()
    ]
    texts = {INDEX: f"{HEAD}\n\n{table(('page', 'sections'), rows)}"}
    for name, page in made.items():
        parts = [f"# {page.title}", MADE, f"{page.opening} All pages: [reference](../{INDEX})."]
        parts += [f"## {title}\n\n" + "\n".join(lines()).strip() for title, lines in page.sections]
        texts[f"reference/{name}"] = "\n\n".join(parts) + "\n"
    return texts


def _link(name: str, title: str) -> str:
    return f"[{title}](reference/{name}#{anchor(title)})"


# --- Python and contracts ---


def _names() -> Iterator[str]:
    yield "From `readback`, the stable public names:\n"
    rows = [
        (f"`{name}`", first_sentence(getattr(readback, name))) for name in sorted(readback.__all__) if name[0] != "_"
    ]
    yield table(("name", "meaning"), [*rows, ("`__version__`", "The version of the package.")])
    yield "From `readback.systems`, the built-in executors (for actions) and sources (for readings):\n"
    yield table(("name", "meaning"), [(f"`{n}`", first_sentence(getattr(systems, n))) for n in systems.__all__])
    yield "From `readback.recipes`, ready actions for common cases:\n"
    made = [n for n in recipes.__all__ if n[0].islower() or n in RECIPE_PARTS]
    yield table(("name", "meaning"), [(f"`{n}`", first_sentence(getattr(recipes, n))) for n in made])
    yield "Methods of `Readback`. `AsyncReadback` has the same methods; await all except `open` and `signal`:\n"
    yield table(("method", "does"), _methods(readback.Readback))
    yield from _outcome()
    yield "Methods of a decorated function:\n"
    yield table(("name", "does"), _methods(ActionDefinition))
    yield prose(
        "Errors are in `readback.errors`. Errors for agents are in `readback.agent_errors`, errors of traces in "
        f"`{trace_fault.__name__}`, errors of evidence in `{fault.__name__}`, and errors of release gates in "
        f"`{gates_fault.__name__}`. Virtual time, simulated worlds, "
        "conformance suites and drills are in `readback.testing`."
    )


def _outcome() -> Iterator[str]:
    outcome = readback.Outcome
    own = [name for name in vars(outcome) if not name.startswith("_") and name not in outcome.__slots__]
    called = [f"{name}()" if inspect.isfunction(vars(outcome)[name]) else name for name in own]
    for title, name, listed in (
        ("Fields and methods of an `Outcome`:", "Outcome", [*outcome.__slots__, *called]),
        ("Additional fields of a `SagaOutcome`:", "SagaOutcome", readback.SagaOutcome.__slots__),
        (
            "Fields and methods of a `StepOutcome`, an element of `SagaOutcome.steps`:",
            "StepOutcome",
            _own(readback.StepOutcome),
        ),
        ("Fields of a `Context`, the first parameter of each function of a contract:", "Context", Context.__slots__),
    ):
        # The order of WORDS is the order of use. The order of the class is by memory layout.
        known = meanings(name, listed)
        yield f"{title}\n"
        yield table(("name", "meaning"), [(f"`.{word}`", known[word]) for word in WORDS[name]])


def _own(of: type) -> list[str]:
    """Return the class's own public names, methods with parentheses."""
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
        "Pass these keys to `@action(...)` and `@name.compensate(...)`. An unknown key is an error. Loading a contract "
        "reports all errors of the contract at once. A *duration* is text with a unit (`500ms`, `10s`, `1m30s`, `2h`) "
        "or a `timedelta`. A number without a unit is rejected. A *condition* is an expression, or a Python callable "
        "with roots as parameters. A *template* accepts `{requested.x}`, `{intended.x}`, `{observed.x}` and "
        "`{scope.x}`."
    )
    yield table(("key", "value", "default", "meaning"), [(f"`{name}`", *key) for name, key in KEYS.items()])
    yield prose(
        "A contract also has functions. `.read` declares a reader, and may be used several times. `.find` returns "
        "every effect with the stamp, at any place. `.lookup` returns the result of the attempt with this key. "
        "`.compensate` declares the reversing action. `.rollback` restores a local boundary. `.twin` names the sandbox "
        "for drills."
    )


def _expressions() -> Iterator[str]:
    yield prose(
        "Expressions are written in a strict subset of CEL. Readback has an evaluator of its own. An expression can "
        "use only the following roots. Test for an absent object with `authoritative == null`."
    )
    yield table(("root", "contents"), [(f"`{root}`", ROOT_MEANINGS[root]) for root in ROOTS])
    yield prose(
        "The value of an expression is true, false or undetermined. A missing field, a wrong type, or a comparison of "
        "a text with a number makes the expression undetermined. A part can decide the whole, even beside an "
        "undetermined part: `false && x` and `x && false` are false, `true || x` and `x || true` are true. The "
        "negation of undetermined is undetermined. Null is never true."
    )
    yield "Operators, from the lowest to the highest precedence. Use brackets to change the order:\n"
    yield table(("form", "meaning"), [(f"`{form}`", text) for form, text in OPERATORS.items()])
    yield prose(
        "Numbers are exact: whole numbers of any size, and decimals. A JSON number has the exact value of the JSON "
        "text. `0.1 + 0.2 == 0.3` is true, `1 == 1.0` is true, and the division of two whole numbers drops the "
        "remainder. A division without an exact result, such as `1.0 / 3`, is undetermined. Nothing is rounded. A "
        "comparison of two different types, such as a text and a number, is undetermined, also in `in` and inside "
        "lists and objects. Null can be compared with any value."
    )
    yield prose(
        "Write a text as `'...'`, `\"...\"`, in three quotes, or as `r'...'` without escapes. Write bytes as `b'...'`, "
        "a number as `1`, `0x1F`, `1.5` or `1e3`, a list as `[1, 2]`, and an object as `{'a': 1}`. A comment begins "
        "with `//`."
    )
    yield "Functions:\n"
    said = {name: each.says.partition(": ") for name, each in FUNCTIONS.items()}
    rows = [(said[name][0], said[name][2]) for name in FUNCTIONS if name not in ACCESSORS]
    parts = ", ".join(f"`t.{name}()`" for name in ACCESSORS)
    yield table(("function", "result"), [*rows, (parts, ACCESSORS_MEANING)])
    yield prose(
        f"An expression has at most {limits.EXPRESSION_MAX_BYTES:,} bytes, "
        f"{limits.EXPRESSION_DEPTH_MAX_LEVELS} levels of brackets, {limits.EXPRESSION_NESTED_LOOPS_MAX} nested "
        f"loops and {limits.EXPRESSION_ADDITIONS_MAX} `+` signs. One evaluation takes at most "
        f"{limits.EXPRESSION_WORK_MAX:,} steps: about 1 step for each inspected character, and 128 steps for each "
        "visited value. The steps of a function or a loop are counted before the start. If the limit would be "
        "exceeded, the expression is undetermined."
    )
    yield prose(
        "Not part of the language: messages, optional values, a separate type for unsigned numbers (`1u` is `1`), "
        "infinity, true or false as keys of objects, names of time zones (write an offset), and other methods of "
        "texts. Loading rejects each of them and names the replacement."
    )


# --- errors ---


def _claims() -> Iterator[str]:
    yield "Fields and methods of a `Claim`:\n"
    own = [name for name in vars(Claim) if not name.startswith("_") and name not in Claim.__slots__]
    called = [f"{name}()" if inspect.isfunction(vars(Claim)[name]) else name for name in own]
    known = meanings("Claim", [*Claim.__slots__, *called])
    yield table(("name", "meaning"), [(f"`.{word}`", known[word]) for word in WORDS["Claim"]])
    yield "Reasons for a change of a claim's status. The confidence is a fixed figure, not a measurement:\n"
    rows = [(f"`{name.value}`", row.words, row.confidence, f"`{row.advice.value}`") for name, row in REASONS.items()]
    yield table(
        ("reason", "the claim was contested, retracted or reinstated, because", "confidence", "recommended"), rows
    )
    yield prose("For a reinstated claim the recommendation is always `go_on`, for any author of the statement.")
    yield table(("recommended", "meaning"), [(f"`{name.value}`", text) for name, text in ADVICE.items()])


def _traces() -> Iterator[str]:
    yield prose(f"The checks of `readback trace verify`, in order: {words(CHECKS)}.")
    yield "All failure codes:\n"
    rows = [(f"`{name}`", words(c.checks), c.invariant or "", c.meaning) for name, c in TRACE_CODES.items()]
    yield table(("code", "failed check", "invariant", "meaning"), rows)


def _reports() -> Iterator[str]:
    yield "Faults of a final report, each at a position in the text:\n"
    rows = [(f"`{name.value}`", text, "undetermined" if name in OPEN_FAULTS else "") for name, text in FAULTS.items()]
    yield table(("code", "meaning", ""), rows)


def _errors() -> Iterator[str]:
    yield prose(
        "Every error is a `ReadbackError` with a stable `code`, an `exit_code`, a `message`, a `remedy` and `details`."
    )
    yield table(("error", "code", "exit code", "meaning", "remedy"), _error_rows())
    yield "More specific codes. An error can carry such a code in place of the code of the class:\n"
    yield prose(f"{words(sorted(_finer_codes()))}.")
    yield "Codes of outcomes, not of errors: the reason for a missing execution or an early stop.\n"
    yield table(("code", "meaning"), [(f"`{code}`", text) for code, text in CODES.items()])


ERROR_HOMES: tuple[str, ...] = (
    "readback.assurance.canary.terms",
    "readback.assurance.drills.ledger_schema",
    "readback.assurance.drills.worlds",
    "readback.assurance.faults",
    "readback.server.console.sessions",
    "readback.server.errors",
    "readback.testing.faults.fault",
)
"""Modules with errors of a slice, imported by nothing else here."""


def _error_rows() -> Iterator[tuple[object, ...]]:
    for home in ERROR_HOMES:
        importlib.import_module(home)
    kinds = sorted(set(_tree(errors.ReadbackError)), key=lambda kind: kind.code)
    for each in kinds:
        exit_code = "by state" if each is errors.NotVerifiedError else each.exit_code
        yield f"`{each.__name__}`", f"`{each.code}`", exit_code, first_sentence(each), each.remedy_default


def _tree(of: type[errors.ReadbackError]) -> Iterator[type[errors.ReadbackError]]:
    yield of
    for below in of.__subclasses__():
        if below.__module__.startswith("readback."):
            yield from _tree(below)


_CODE = re.compile(r"(tool|store|settings|expression|gates)\.[a-z-]+")


def _finer_codes() -> set[str]:
    """Return the codes passed where an error is raised, without the findings of `ledger verify` and of the demo."""
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
    yield "Answers go to stdout, as a single JSON value with `--json`. Progress and errors go to stderr.\n"
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
        context = click.Context(command)
        for below in command.commands or command.list_commands(context):  # a group may import its commands on call
            each = command.get_command(context, below)
            if each is not None:
                yield from _with_all_below(f"{name} {below}", each)


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
    context.help_option_names = ["-h", "--help"]
    return command.get_help(context).rstrip()


def _environment() -> Iterator[str]:
    yield prose(
        "Arguments and flags override the environment. The environment overrides files, and files override the "
        "defaults. Readback reads two files: `config.toml` in the user's configuration folder for Readback, and "
        "`readback.toml` in the working folder. `readback.toml` is used only if `config.toml` pins the file's SHA-256 "
        "under `[trusted]`, because an agent may have write access to the working folder."
    )
    config = importlib.import_module("readback.config")
    rows = [
        ("`READBACK_URL`", "`url`", "the ledger", f"`{config.URL_DEFAULT}`"),
        ("`READBACK_TENANT`", "`tenant`", "the tenant of the actions", f"`{config.TENANT_DEFAULT}`"),
        ("`READBACK_PRINCIPAL`", "`principal`", "the acting principal", f"`{config.PRINCIPAL_DEFAULT}`"),
        ("`READBACK_CONTRACTS`", "`contracts`", "modules with contracts, separated by commas; a list in files", "none"),
        (
            "`READBACK_SCOPES`",
            "`scopes`",
            "the permission scopes of the client, separated by commas; a list in files",
            "none",
        ),
        (
            "",
            "`shadow`",
            "contracts that may run in [shadow mode](../shadow.md): a list of names, or `*`; in files alone",
            "none",
        ),
        ("", "`[limits]`, `[limits.TENANT]`", "limits for tenants: " + _tenant_limits(), "no limit"),
        ("`READBACK_SIGNING_KEY_FILE`", "`signing_key_file`", "the file of the log's own key, for checkpoints", "none"),
        ("`READBACK_DEBUG`", "", "print the full traceback of an unexpected error", "off"),
    ]
    yield table(("variable", "in files", "meaning", "default"), rows)


def _tenant_limits() -> str:
    return ", ".join(f"`{each.name}`" for each in fields(TenantLimits))


LIMITED = (
    "canon.limits", "domain.contract.watch", "domain.contract.approval",
    "domain.belief.text",
    "audit.feedback.findings",
    "domain.contract.contract", "domain.outcome.reporting", "contracts.options",
    "contracts.templates", "domain.saga.fold", "domain.saga.planner",
    "engine.schedule", "engine.stages.verify", "engine.values.reader_results", "engine.stages.execute",
    "engine.run", "systems.sql.source", "systems.files.source", "systems.mail.source", "systems.mail.executor",
    "systems.sql.executor", "traces.format.fault", "domain.grounding.report",
)  # fmt: skip
"""Modules with limits for users."""
_LIMIT = re.compile(r"^[A-Z][A-Z_]*_(MAX|MAX_[A-Z]+|FIRST_US|MARGIN_US|KEPT_US|GRACE_US)$")


def _limits() -> Iterator[str]:
    yield "Each limit is a named constant.\n"
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
        raise SystemExit(
            f"scripts/reference_words.py lacks an entry for {missing}, and has unused entries for {unused}"
        )
    yield table(("limit", "value", "meaning", "where"), rows)


def run(argv: Sequence[str] | None = None) -> int:
    """Return 0 on success, and 1 if a committed page differs."""
    parser = argparse.ArgumentParser(description="docs/reference.md and docs/reference/, from the tables.")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--check", action="store_true", help="exit with 1 if a committed page is old")
    group.add_argument("--write", action="store_true", help="write the pages")
    options = parser.parse_args(argv)
    old = [name for name, text in documents().items() if not _is_current(DOCS / name, text)]
    if options.write:
        for name, text in documents().items():
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(text, encoding="utf-8")
    elif old:
        print(f"Out of date: {', '.join(old)}. Run: python scripts/reference.py --write", file=sys.stderr)
        return 1
    return 0


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(run())
