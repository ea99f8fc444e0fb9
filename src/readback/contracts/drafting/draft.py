"""A contract file drafted from a server's tools. Every uncertain value is marked, and fails `check` until decided.

Called by `readback contracts draft`. A draft reaches no system and decides nothing: the same tools give the same text.
The server's own descriptions stand in comments alone, as third-party text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Final

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.drafting.guesses import Guess, class_of, kind_of, nouns, only_reads, prefixes_of
from readback.contracts.drafting.readers import Candidate, candidates, identifying
from readback.contracts.drafting.tools import Tool, tool_of
from readback.contracts.drafting.writing import Line, rendered, shown
from readback.contracts.files.assembly import CONTRACTS_MAX, NAME
from readback.contracts.files.document import FILE_MAX_BYTES
from readback.contracts.files.templates.injection_checks import holds_credential
from readback.contracts.files.undecided import MARK, marked, proposed
from readback.contracts.files.vocabulary import API_VERSION, KIND
from readback.contracts.problems import did_you_mean
from readback.domain.contract.contract import NOT_OFFERED
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect, depth
from readback.errors import UsageError
from readback.ports.system_factory import Reference

TOLD_MAX: Final = 200
"""The number of named tools among those without a contract."""
_SLUG: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Server:
    """The server's connection (`command` or `url`), and the server's own name."""

    command: tuple[str, ...] = ()
    url: str = ""
    name: str = ""
    version: str = ""
    headers: Mapping[str, Reference | str] = field(default_factory=dict)
    """Headers, each by reference."""


def draft(tools: Sequence[Mapping[str, Json]], server: Server, only: Collection[str] = ()) -> str:
    """Return the file's text. `only`: the tools to draft, regardless of hints; otherwise all tools with effects.

    Raises UsageError for nothing to draft, or too much for one file.
    """
    text = rendered(document(tools, server, only))
    if len(text.encode()) > FILE_MAX_BYTES:
        raise UsageError(
            f"A draft of all tools exceeds {FILE_MAX_BYTES} bytes.", remedy="Select some tools with --tool."
        )
    return text


def document(tools: Sequence[Mapping[str, Json]], server: Server, only: Collection[str] = ()) -> list[Line]:
    """Return the draft as lines. Raises UsageError."""
    if not all(each.isascii() or _is_text(each) for each in (*server.command, server.url)):
        raise UsageError(
            "The server's command holds bytes that are no text, and a contract file is text.",
            remedy="Start it by a program whose name and arguments are text.",
        )
    found = [each for each in map(tool_of, tools) if each is not None and proposed(each.name) is None]
    known = sorted({each.name: each for each in found}.values(), key=lambda each: each.name)
    prefixes = prefixes_of(known)
    reads = {each.name for each in known if only_reads(each, prefixes)}
    reading = [each for each in known if each.name in reads - set(only)]
    acting = [each for each in known if (each.name in only if only else each.name not in reads)]
    _bounded(acting, known, only)
    roots = [each for each in server.command[1:] if each.startswith("/") and not each.endswith((".py", ".js"))]
    named = _names(acting)
    contracts = [_contract(each, named[each.name], reading, roots) for each in acting]
    return [
        Line("apiVersion", API_VERSION, _head(server, len(tools) - len(known))),
        Line("kind", KIND),
        Line("metadata", [Line("name", _slug(server.name)), Line("version", "0.1.0")]),
        _server(server),
        Line("contracts", contracts, _without(reading)),
    ]


def _is_text(said: str) -> bool:
    try:
        said.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bounded(acting: Sequence[Tool], known: Sequence[Tool], only: Collection[str]) -> None:
    missing = sorted(set(only) - {each.name for each in known})
    if missing:
        near = did_you_mean(missing[0], [each.name for each in known])
        raise UsageError(f"The server has no tool {missing[0]!r:.80}.{near}", remedy="Name an existing one.")
    if not acting:
        raise UsageError("By their names and hints, none of the server's tools changes anything.", remedy=_NOTHING)
    if len(acting) > CONTRACTS_MAX:
        raise UsageError(f"More than {CONTRACTS_MAX} tools change something.", remedy="Select some tools with --tool.")


_NOTHING: Final = "There is nothing to verify; a tool that changes something all the same can be named with --tool."


def _head(server: Server, lost: int) -> tuple[str, ...]:
    said = f"{shown(server.name, 80) or 'a server without a name'} {shown(server.version, 40)}".strip()
    return (
        f"A draft, made from what {said} says of its own tools. Nothing of it is decided.",
        f"Every value that begins with {MARK} is a question. What follows the word is proposed: delete the word to "
        "take it, or write what is right. `readback contracts check` refuses the file as long as one is left.",
        "What the server says stands in quotes, and is a claim. Every key: docs/contract-files.md.",
        *([f"Left out: {lost} tools without a name that could be called."] if lost else []),
    )


def _server(server: Server) -> Line:
    """Return the connection's lines. A literal credential is left out."""
    if server.url:
        hidden = holds_credential(server.url)
        said = ("The address holds a credential: give it by reference, as {env: NAME}.",) if hidden else ()
        sent = [
            Line(name, [Line(each.kind, each.name)])
            for name, each in server.headers.items()
            if isinstance(each, Reference)
        ]
        headers = [Line("headers", sent)] if sent else []
        return Line("server", [Line("url", marked() if hidden else server.url, said), *headers])
    found: list[str] = []
    for each in server.command:
        found.append(marked() if holds_credential(each, *found[-1:]) else each)
    said = ("An argument looks like a credential, and is not written down: hand it over by `env`.",)
    return Line("server", [Line("command", tuple(found), said if marked() in found else ())])


def _without(reading: Sequence[Tool]) -> tuple[str, ...]:
    if not reading:
        return ()
    names = [shown(each.name, 80) + ("" if each.hints.read_only else " (by its name)") for each in reading[:TOLD_MAX]]
    more = f" and {len(reading) - TOLD_MAX} more" if len(reading) > TOLD_MAX else ""
    return (f"Taken as reading only, without a contract: {', '.join(names)}{more}.",)


def _names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the contracts' names: the tools' own names where valid."""
    taken = {each.name for each in tools if NAME.fullmatch(each.name)}
    found: dict[str, str] = {}
    for each in tools:
        name = each.name
        if name not in taken:
            stem = "tool_" + (_SLUG.sub("_", name.lower()).strip("_") or "unnamed")
            name, number = stem, 1
            while name in taken:
                number += 1
                name = f"{stem}_{number}"
            taken.add(name)
        found[each.name] = name
    return found


# --- one contract --------------------------------------------------------------------------------------------------


def _contract(tool: Tool, name: str, reading: Sequence[Tool], roots: Sequence[str]) -> Line:
    kind, side = kind_of(tool), class_of(tool)
    terms = depth(SideEffect(side.value))
    found = candidates(tool, reading, roots)
    fit = [each for each in found if each.independence.rank >= terms.minimum_independence.rank]
    chosen = fit[0] if fit and terms.quorum_min == 1 and kind.value not in _OURS else None
    closest = chosen or (found[0] if found else None)
    lines = [
        Line("kind", marked(kind.value), (*_said(tool), kind.why)),
        Line("side_effect", marked(side.value), (side.why,)),
        Line("target", marked(_target(tool, closest))),
    ]
    identity = _identity(closest, SideEffect(side.value))
    if identity:
        lines.append(Line("identity", identity))
    if tool.sha256:
        lines.append(
            Line("tool_sha256", tool.sha256, ("What the server says of it, as it was when this was drafted.",))
        )
    if name != tool.name:
        lines.append(Line("execute", [Line("tool", [Line("name", tool.name)])]))
    lines += [_readers(chosen, found, side, kind), _ensure(kind, closest)]
    if terms.operation_required:
        lines.append(Line("operation", marked(), (f"{side.value}: {_OPERATION}",)))
    return Line(name, lines)


_OPERATION: Final = (
    "a call belongs to an operation, and none acts twice. Where your clients name it (`io.readback/operation` in the "
    "call's `_meta`), take this line away; else write what tells one intent from the next, such as `order "
    "{requested.order_id}`. What comes to the same again is answered from the record. Without either no call is sent."
)
_OURS: Final = frozenset(kind.value for kind in Kind if kind.needs_ours)


def _said(tool: Tool) -> tuple[str, ...]:
    """Return the server's description, in quotes and bounded."""
    takes = [f"{each.name} ({each.kind or 'any'}{'' if each.required else ', optional'})" for each in tool.arguments]
    more = f" and {tool.unnamed} that no expression can name" if tool.unnamed else ""
    hints = [
        f"{word} {'yes' if value else 'no'}"
        for word, value in (
            ("reads only:", tool.hints.read_only),
            ("destroys:", tool.hints.destructive),
            ("may be repeated:", tool.hints.idempotent),
            ("acts outside:", tool.hints.open_world),
        )
        if value is not None
    ]
    return (
        *([f'The server says: "{shown(tool.said)}"'] if tool.said.strip() else []),
        f"Takes {', '.join(takes) or 'nothing'}{more}.",
        *([f"Its hints: {', '.join(hints)}."] if hints else []),
    )


def _target(tool: Tool, candidate: Candidate | None) -> str:
    keys = candidate.keys if candidate is not None else identifying(tool)
    if not keys:
        return ""
    type_ = _slug("-".join(nouns(tool)), "object")
    return "/".join([type_, *(f"{{requested.{key}}}" for key in keys)])


def _identity(candidate: Candidate | None, side: SideEffect) -> list[Line]:
    """Return the identity keys required by the class, and no more."""
    terms = depth(side)
    told = candidate.identity if candidate is not None else ""
    lines = [] if "target" in terms.identity_required or not told else [Line("target", marked(told))]
    for key in terms.identity_required:
        if key == "target":
            lines.append(Line(key, marked(told)))
        else:
            lines.append(Line(key, marked("" if key in terms.identity_essential else NOT_OFFERED)))
    return lines


def _readers(chosen: Candidate | None, found: Sequence[Candidate], side: Guess, kind: Guess) -> Line:
    if chosen is not None:
        others = [each for each in found if each is not chosen]
        return Line("readers", [chosen.line], (chosen.why, *(f"Or: {each.why}" for each in others)))
    terms = depth(SideEffect(side.value))
    needs = (
        f"{side.value} needs {terms.quorum_min} reader{'s that agree' if terms.quorum_min > 1 else ''}, each at least "
        f"{terms.minimum_independence.value} and {terms.minimum_consistency.value}."
    )
    ours = (f"A {kind.value} needs a reading that shows whose doing it is: see `find`, `lookup`, `identity.stamp`.",)
    weak = tuple(f"Not enough by itself: {each.why}" for each in found)
    why = "Where nothing can read it, write `unverifiable:` with the reason in place of `readers` and `identity`."
    return Line("readers", marked(), (needs, *(ours if kind.value in _OURS else ()), *weak, why))


def _ensure(kind: Guess, candidate: Candidate | None) -> Line:
    if kind.value == Kind.DELETE.value:
        return Line("ensure", [Line("gone", marked("authoritative == null"))])
    found = candidate.ensure if candidate is not None else {}
    if not found:
        why = "No field of a reading has the name of an argument: say what has to hold afterwards, as an expression."
        return Line("ensure", [Line("held", marked(), (why,))])
    return Line("ensure", [Line(name, marked(expression)) for name, expression in found.items()])


def _slug(text: str, otherwise: str = "drafted") -> str:
    found = _SLUG.sub("-", text.lower())[:60].strip("-")
    return found if found and found[0].isalpha() else f"{otherwise}-{found}".strip("-")
