"""The examples of a contract in a file, read key by key.

`build` calls this module after the contract is compiled. Arguments are bound as for a call. Each fault carries a place.
Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from readback.canon import CanonError, Json, ReadbackError, json_value
from readback.contracts.examples import Example, ExampleError, with_value
from readback.contracts.files.document import Place, Written
from readback.contracts.files.system_options import Diagnostics, joined
from readback.contracts.functions.arguments import ArgumentSchema
from readback.contracts.problems import did_you_mean
from readback.domain.discrepancy import Discrepancy
from readback.domain.predicate import Path
from readback.domain.verdict import Verdict
from readback.engine.compiled_contract import CompiledContract
from readback.errors import ContractFieldError, InputError

EXAMPLES_MAX: Final = 200
EXAMPLE_KEYS: Final = (
    "expect", "discrepancy", "like", "but", "requested", "before", "state", "readings", "found", "observed", "tenant",
    "stamped", "complete", "free",
)  # fmt: skip
CHANGED: Final = ("state", "before", "requested")
"""The parts of the example under `like` that `but` may change."""
EXPECTED: Final = (Verdict.VERIFIED.value, Verdict.REFUTED.value, Verdict.UNDETERMINED.value)
NEAR_MIN: Final = 0.8
"""Two field names with a higher likeness, from 0 to 1, count as a slip of the pen."""


def read_examples(
    node: Written,
    path: str,
    findings: Diagnostics,
    plan: CompiledContract,
    arguments: ArgumentSchema,
    *,
    arguments_known: bool,
) -> tuple[Example, ...]:
    """Return the sound examples, in the order of the file."""
    found = node.mapping
    if not found or len(found) > EXAMPLES_MAX:
        findings.add(node, path, ExampleError(f"Must be a mapping of 1 to {EXAMPLES_MAX} examples by name."))
        return ()
    reader = _Reader(findings, plan, arguments if arguments_known else None)
    made = (reader.example(name, each, node.keys[name], joined(path, name)) for name, each in found.items())
    return tuple(each for each in made if each is not None)


def read_survivors(node: Written, path: str, findings: Diagnostics) -> dict[str, str]:
    """Return the reasons for accepted mutants, by the mutant's name or by a beginning and `*`."""
    return _reasons(node, path, findings, "the mutant")


def _reasons(node: Written, path: str, findings: Diagnostics, what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if node.mapping is None:
        findings.add(node, path, ExampleError(f"Must be a mapping of {what} to the reason."))
    for name, each in (node.mapping or {}).items():
        if not isinstance(each.value, str) or not each.value.strip():
            findings.add(each, joined(path, name), ExampleError(f"Write the reason for {what}, in words."))
        else:
            found[name] = each.value
    return found


class _Reader:
    def __init__(self, findings: Diagnostics, plan: CompiledContract, arguments: ArgumentSchema | None) -> None:
        self._findings, self._plan, self._arguments = findings, plan, arguments
        self._fields = fields_named(plan)
        self._made: dict[str, Example] = {}

    def example(self, name: str, node: Written, place: tuple[int, int], path: str) -> Example | None:
        before = len(self._findings.faults)
        keys = self._findings.keys(node, path, "An example", EXAMPLE_KEYS)
        if "expect" not in keys:
            self._add(node, path, "An example needs 'expect'.")
        if not {"state", "readings", "like"} & set(keys):
            self._add(node, path, "An example needs 'state', or 'like' with the name of an earlier example.")
        base = self._base(name, keys, node, path)
        if len(self._findings.faults) > before:
            return None
        made = replace(
            base,
            expect=self._expected(keys["expect"], joined(path, "expect")),
            line=place[0],
            column=place[1],
            **self._terms(keys, path),
        )
        made = self._changed(made, keys["but"], joined(path, "but")) if "but" in keys else made
        if "requested" in keys or "but" in keys or "like" not in keys:
            at = keys.get("requested", keys.get("but", node))
            made = replace(made, requested=self._bound(made.requested, at, joined(path, "requested")))
        if len(self._findings.faults) > before:
            return None
        self._made[name] = made
        return made

    def _base(self, name: str, keys: Mapping[str, Written], node: Written, path: str) -> Example:
        like = keys.get("like")
        if like is None:
            if "but" in keys:
                self._add(keys["but"], joined(path, "but"), "`but` changes the example under `like`. Add `like`.")
            return Example(name, Verdict.UNDETERMINED, {})
        known = self._made.get(str(like.value))
        if known is None:
            said = f"No sound example above has the name {like.value!r:.80}.{did_you_mean(str(like.value), self._made)}"
            self._add(like, joined(path, "like"), said)
            return Example(name, Verdict.UNDETERMINED, {})
        return replace(known, name=name, discrepancy="", found=None, readings={})

    def _expected(self, node: Written, path: str) -> Verdict:
        word = self._word(node, path, EXPECTED)
        return Verdict(word) if word else Verdict.UNDETERMINED

    def _terms(self, keys: Mapping[str, Written], path: str) -> dict[str, Any]:
        """Return the fields stated by the example's own keys."""
        found: dict[str, Any] = {}
        for key in keys:
            node, where = keys[key], joined(path, key)
            match key:
                case "discrepancy":
                    found[key] = self._word(node, where, [each.value for each in Discrepancy])
                case "state":
                    found[key] = self._state(node, where)
                case "before":
                    found |= {"before": self._state(node, where), "has_before": True}
                case "requested":
                    found[key] = self._mapping(node, where)
                case "readings":
                    found[key] = self._readings(node, where)
                case "found":
                    found[key] = self._found(node, where)
                case "observed":
                    found[key] = self._value(node, where)
                case "tenant":
                    found[key] = str(node.plain())
                case "stamped" | "complete":
                    found[key] = self._flag(node, where)
                case "free":
                    found[key] = _reasons(node, where, self._findings, "the field")
                case _:
                    pass
        return found

    def _changed(self, made: Example, node: Written, path: str) -> Example:
        """Apply `but`: values by dotted path, such as `state.status`."""
        if not node.mapping:
            self._add(node, path, "Must be a mapping of paths, such as `state.status`, to values.")
        roots: dict[str, Json] = {"state": made.state, "before": made.before, "requested": dict(made.requested)}
        for text, each in (node.mapping or {}).items():
            steps = Path.named(text).steps
            if not steps or steps[0] not in CHANGED:
                said = f"A path begins with one of {', '.join(CHANGED)}."
                self._add(node.keys[text], joined(path, text), said)
                continue
            root = str(steps[0])
            roots[root] = with_value(roots[root], steps[1:], self._value(each, joined(path, text)))
        requested = roots["requested"]
        return replace(
            made,
            state=roots["state"],
            before=roots["before"],
            requested=requested if isinstance(requested, dict) else {},
        )

    def _add(self, node: Written | Place, path: str, said: str) -> None:
        self._findings.add(node, path, ExampleError(said))

    def _word(self, node: Written, path: str, words: Collection[str]) -> str:
        if node.value not in words:
            said = (
                f"Must be one of {', '.join(words)} (got {node.plain()!r:.60}).{did_you_mean(str(node.value), words)}"
            )
            self._add(node, path, said)
            return ""
        return str(node.value)

    def _flag(self, node: Written, path: str) -> bool:
        if not isinstance(node.value, bool):
            self._add(node, path, f"Must be true or false (got {node.plain()!r:.60}).")
        return node.value is True

    def _value(self, node: Written, path: str) -> Json:
        try:
            return json_value(node.plain())
        except CanonError as error:
            self._add(node, path, f"The value has no JSON form: {error.message}")
            return None

    def _state(self, node: Written, path: str) -> Json:
        """Read a state. A field beside a similar name of the contract's clauses is a slip of the pen."""
        for name in node.mapping or {}:
            if name in self._fields:
                continue
            absent = [known for known in self._fields if known not in (node.mapping or {})]
            near = get_close_matches(name, absent, n=1, cutoff=NEAR_MIN)
            if near:
                said = f"No clause of the contract names the field {name!r:.60}. Did you mean {near[0]!r}?"
                self._findings.add(node.keys[name], joined(path, name), ExampleError(said))
        return self._value(node, path)

    def _mapping(self, node: Written, path: str) -> Mapping[str, Json]:
        value = self._value(node, path)
        if not isinstance(value, dict):
            self._add(node, path, "Must be a mapping of arguments.")
            return {}
        return value

    def _bound(self, given: Mapping[str, Json], at: Written, path: str) -> Mapping[str, Json]:
        """Bind the arguments as for a call: types are checked, and defaults filled in."""
        if self._arguments is None:
            return given
        try:
            return dict(self._arguments.bind((), given).requested)
        except (InputError, ContractFieldError) as error:
            self._add(at, path, f"The arguments do not suit the action. {_each(error) or error.message}")
            return given

    def _readings(self, node: Written, path: str) -> dict[str, Json]:
        names = [each.name for each in self._plan.contract.readers]
        if node.mapping is None:
            self._add(node, path, f"Must be a mapping of the readers {', '.join(names)} to states.")
        for name in node.mapping or {}:
            if name not in names:
                self._add(node, joined(path, name), f"There is no reader {name!r:.60}.{did_you_mean(name, names)}")
        return {name: self._state(each, joined(path, name)) for name, each in (node.mapping or {}).items()}

    def _found(self, node: Written, path: str) -> tuple[Json, ...] | None:
        if node.listed is None or not self._plan.contract.has_find:
            self._add(node, path, "Must be a list of states, in a contract with `find`.")
            return None
        return tuple(self._state(each, f"{path}[{number}]") for number, each in enumerate(node.listed))


def _each(error: ReadbackError) -> str:
    """Return the problem of each argument, in words."""
    problems = error.details.get("problems")
    listed = problems if isinstance(problems, list) else []
    return "; ".join(
        f"{one['argument']}: {one['reason']}" for one in listed if isinstance(one, dict) and "argument" in one
    )


def fields_named(plan: CompiledContract) -> tuple[str, ...]:
    """Return the fields right below a reading that the contract's clauses name."""
    predicates = [each.predicate for each in (*plan.ensure, *plan.fails_when, *plan.intermediate) if each.predicate]
    predicates += [each.predicate for each in plan.identity]
    found: dict[str, None] = {}
    for predicate in predicates:
        for path in predicate.paths:
            step = below(path)
            if step:
                found[step] = None
    return tuple(found)


def below(path: Path) -> str:
    """Return the field right below `authoritative` or `before`; "" for another path."""
    if path.root not in ("authoritative", "before") or len(path.steps) < 2:
        return ""
    step = path.steps[1]
    return step if isinstance(step, str) else ""
