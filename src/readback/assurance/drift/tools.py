"""The tool side of a drift check: the live tool beside the form, the arguments and the pin of the last verified use.

The gateway records the form of each governed tool. A use on another way, such as through the SDK, has no form on
record, and the live tool is then compared with the arguments of the call. No tool is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.assurance.drift.findings import Change, Drift
from readback.assurance.watched.calls import WatchedCall
from readback.canon import Json
from readback.contracts.files.contract import FileContract
from readback.contracts.files.tools.listing import Tool, Toolbox, fingerprint
from readback.contracts.files.tools.recorded_form import form_of_tool
from readback.contracts.files.tools.tool_schema import unfit

_ARGUMENTS: Final = ("arguments",)
_TAKES: Final = "takes"
_GIVES: Final = "gives"
_HASH: Final = "sha256"


def tool_drift(contract: FileContract, last: WatchedCall | None, toolbox: Toolbox) -> tuple[list[Drift], int]:
    """Compare the governed tool with the contract and with the arguments and the answer of the last verified use."""
    tools = toolbox.of(contract.home.file)
    if not contract.tool or tools.own is None:
        return [], 0
    tool = tools.tool("", contract.tool)
    if tool is None:
        said = f"the server has no tool {contract.tool!r} any more"
        return [Drift(Change.GONE, "tool", contract.tool, said, ("execute",))], 1
    found = [*_pinned(contract, tool)]
    if last is not None:
        now = form_of_tool(tool.definition) if tool.defined and last.tool else {}
        found += _values(contract, tool, last) if _TAKES not in last.tool.keys() & now.keys() else ()
        found += _forms(contract, tool, last, now) if now else ()
    return found, 1 + len(tool.takes.get("properties", {}) or {})


def _pinned(contract: FileContract, tool: Tool) -> Iterator[Drift]:
    if contract.tool_sha256 and tool.defined and fingerprint(tool.definition) != contract.tool_sha256:
        said = f"the definition of {tool.name!r} is not the pinned one: {fingerprint(tool.definition)}"
        yield Drift(Change.CHANGED, "tool", tool.name, said, ("tool_sha256",))


def _forms(contract: FileContract, tool: Tool, last: WatchedCall, now: Mapping[str, Json]) -> Iterator[Drift]:
    """Compare the recorded form of the tool with the live one: each argument, the answer's schema and the texts."""
    then, found = last.tool, list[Drift]()
    old, new = then.get(_TAKES), now.get(_TAKES)
    if isinstance(old, dict) and isinstance(new, dict):
        found += _arguments(contract, old, new, _used(contract, last))
    if then.get(_GIVES) != now.get(_GIVES):
        said = f"the schema of the answer of {tool.name!r} is another one"
        found.append(Drift(Change.CHANGED, "answer", tool.name, said, _answer_risks(contract)))
    if not found and then.get(_HASH) != now.get(_HASH):
        said = f"the definition of {tool.name!r} is another one: its description, hints or a part outside its arguments"
        found.append(Drift(Change.CHANGED, "tool", tool.name, said))
    yield from found


def _arguments(
    contract: FileContract, old: Mapping[str, Json], new: Mapping[str, Json], used: Mapping[str, Json]
) -> Iterator[Drift]:
    for name in sorted(old.keys() - new.keys()):
        said = f"the tool takes no argument {name!r} any more"
        yield Drift(Change.GONE, "argument", name, said, _risks(contract, name, used))
    for name in sorted(new.keys() - old.keys()):
        _, needed, _ = _stated(new[name])
        said = f"the tool {'requires' if needed else 'takes'} an argument {name!r}"
        yield Drift(Change.NEW, "argument", name, said, ("arguments",) if needed else ())
    for name in sorted(old.keys() & new.keys()):
        (kind, was_needed, before), (now_kind, needed, after) = _stated(old[name]), _stated(new[name])
        if needed and not was_needed and name not in used:
            yield Drift(Change.CHANGED, "argument", name, f"the tool now requires the argument {name!r}", _ARGUMENTS)
        elif (kind, before) != (now_kind, after):
            said = f"is {now_kind} and was {kind}" if kind != now_kind else "has another schema"
            yield Drift(Change.CHANGED, "argument", name, f"the argument {name!r} {said}", _risks(contract, name, used))
        elif needed != was_needed:
            said = f"the argument {name!r} is {'required' if needed else 'optional'} now"
            yield Drift(Change.CHANGED, "argument", name, said)


def _stated(argument: Json) -> tuple[str, bool, str]:
    """Return an argument's type, whether the argument is required, and the hash of its schema."""
    kind, needed, digest = argument if isinstance(argument, list) and len(argument) == 3 else ("any", False, "")
    return str(kind), needed is True, str(digest)


def _risks(contract: FileContract, name: str, used: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the clauses that name an argument; none for an argument that neither contract nor call has used."""
    found = argument_risks(contract, name)
    return found if found != _ARGUMENTS or name in used else ()


def _used(contract: FileContract, last: WatchedCall) -> dict[str, Json]:
    return {name: value for name, value in last.requested.items() if name not in contract.unsent or value is not None}


def _answer_risks(contract: FileContract) -> tuple[str, ...]:
    """Return the clauses that read the tool's answer."""
    plan, found = contract.plan, list[str]()
    clauses = (("ensure", plan.ensure), ("fails_when", plan.fails_when), ("intermediate", plan.intermediate))
    for key, checks in clauses:
        for check in checks:
            paths = () if check.predicate is None else check.predicate.paths
            if any(path.root == "observed" for path in paths):
                found.append(f"{key}.{check.postcondition.name}")
    return tuple(found)


def _values(contract: FileContract, tool: Tool, last: WatchedCall) -> Iterator[Drift]:
    """Compare the arguments of the last verified call with the live schema: no form of the tool is on record."""
    properties = tool.takes.get("properties")
    live = set(properties) if isinstance(properties, dict) else set()
    used = _used(contract, last)
    for name in sorted(set(used) - live) if live or tool.takes.get("additionalProperties") is False else ():
        said = f"the tool takes no argument {name!r} any more"
        yield Drift(Change.GONE, "argument", name, said, argument_risks(contract, name))
    required = tool.takes.get("required")
    for name in sorted({str(each) for each in required} - set(used)) if isinstance(required, list) else ():
        yield Drift(Change.NEW, "argument", name, f"the tool requires an argument {name!r}", ("arguments",))
    shared = {name: value for name, value in used.items() if name in live}
    for where, reason in unfit({**tool.takes, "required": []}, shared):
        said = f"the last verified call's {where} does not fit any more: {reason}"
        yield Drift(Change.CHANGED, "argument", where, said, argument_risks(contract, where.partition(".")[0]))
    for name in sorted(live - set(used) - {str(each) for each in required or ()}):
        if name not in contract.arguments.names or contract.arguments_known is False:
            yield Drift(Change.NEW, "argument", name, f"the tool takes an argument {name!r}")


def argument_risks(contract: FileContract, name: str) -> tuple[str, ...]:
    """Return the contract's parts that name an argument."""
    plan, found = contract.plan, dict[str, None]()
    for key, checks in (("ensure", plan.ensure), ("fails_when", plan.fails_when), ("require", plan.require)):
        for check in checks:
            paths = () if check.predicate is None else check.predicate.paths
            if any(path.root in ("requested", "intended") and path.steps[1:2] == (name,) for path in paths):
                found[f"{key}.{check.postcondition.name}"] = None
    if f"{{requested.{name}" in plan.contract.target:
        found["target"] = None
    for each in contract.readers:
        if name in each.spec.names:
            found[f"readers.{each.reader.name}"] = None
    return tuple(found) or _ARGUMENTS
