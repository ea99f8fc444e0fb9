"""The false-success guard and the unknown-state test, on every surface of the installation.

The guard runs a tool without an effect, a late effect and an unreadable effect behind each surface. No surface may tell
completion before reconciliation. The unknown-state test repeats an operation with an unknown result. The tool must not
run again before a reading or a person's decision. Each surface also has an honest run, so a silent surface is no pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from readback.assurance.gate_input import GateInput
from readback.assurance.results import NOT_RUN, Finding, GateResult, Standing, gate_result
from readback.assurance.surfaces import Behaviour, Probe, Surface, Told
from readback.canon import ReadbackError
from readback.domain.outcome.reporting import MODEL_STATUS, USER_STATUS
from readback.domain.state import ReportKey

GUARD: Final = "false-success"
UNKNOWN: Final = "unknown-state"
COMPLETION: Final = (USER_STATUS[ReportKey.COMPLETED], MODEL_STATUS[ReportKey.COMPLETED])
"""The statements of completion. No other text may claim completion."""
BROKEN: Final = (ReadbackError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""Errors of a surface that cannot be run here."""


def false_success(given: GateInput) -> GateResult:
    """Run the guard on the input's `surfaces`. A surface that is not installed is listed as not run."""
    return _on_each(GUARD, given.surfaces)


def unknown_state(given: GateInput) -> GateResult:
    """Run the unknown-state test on the input's `surfaces`. A surface that is not installed is listed as not run."""
    return _on_each(UNKNOWN, given.surfaces)


def _on_each(gate: str, surfaces: Sequence[Surface]) -> GateResult:
    counts: Counter[str] = Counter(surfaces=0, run=0, not_installed=0)
    findings: list[Finding] = []
    for surface in surfaces:
        counts["surfaces"] += 1
        if surface.missing():
            counts["not_installed"] += 1
            counts[f"{NOT_RUN}{surface.name}"] = 1  # no finding: a surface without a run has passed nothing
            continue
        counts["run"] += 1
        findings += _run(gate, surface)
    return gate_result(gate, findings, counts)


def _short(gate: str) -> str:
    return "guard" if gate == GUARD else "unknown"


@cache
def _run(gate: str, surface: Surface) -> tuple[Finding, ...]:
    """Check a surface, once in a process: no contract changes the result, and the installation stays as it is.

    A surface that breaks shows nothing, so the surface is undetermined.
    """
    check = _guarded if gate == GUARD else _blocked
    try:
        probe = surface.probe()
        try:
            return tuple(check(surface, probe))
        finally:
            surface.close(probe)
    except BROKEN as error:
        said = error.message if isinstance(error, ReadbackError) else f"{type(error).__name__}: {error}"
        said = f"{surface.name} could not be run: {said:.400}"
        return (Finding(gate, f"{_short(gate)}.not-run", Standing.UNDETERMINED, said, case=surface.name),)


def claims_completion(told: Told) -> bool:
    """Return whether a caller was told completion, by the surface's own sign or in words."""
    return told.completed or any(statement in told.words for statement in COMPLETION)


# --- the guard ---


def _guarded(surface: Surface, probe: Probe) -> Iterator[Finding]:
    outran: list[str] = []
    for behaviour in (Behaviour.LYING, Behaviour.BLIND, Behaviour.LATE):
        probe.behave(behaviour)
        told = surface.ask(probe, behaviour.value)
        if claims_completion(told):
            outran.append(behaviour.value)
            said = f"{surface.name} tells completion before reconciliation ({behaviour.value}): {told.words:.200}"
            yield Finding(GUARD, "guard.outran", Standing.FAILED, said, case=surface.name)
    probe.behave(Behaviour.HONEST)
    honest = surface.ask(probe, Behaviour.HONEST.value)
    if not (honest.completed and claims_completion(honest)):
        said = (
            f"{surface.name} tells no completion of a verified action, so the guard shows nothing: {honest.words:.200}"
        )
        yield Finding(GUARD, "guard.silent", Standing.UNDETERMINED, said, case=surface.name)
    elif not outran:
        said = f"{surface.name} tells completion after reconciliation alone."
        yield Finding(GUARD, "guard.held", Standing.PASSED, said, case=surface.name)


# --- the unknown state ---


def _blocked(surface: Surface, probe: Probe) -> Iterator[Finding]:
    name, found = surface.name, list[Finding]()
    probe.behave(Behaviour.BLIND)
    first, again = surface.ask(probe, "read"), surface.ask(probe, "read")
    calls = probe.calls("read")
    if claims_completion(first) or calls == 0:
        said = f"{name} reached no unknown state, so the test shows nothing: {first.words:.200}"
        yield Finding(UNKNOWN, "unknown.not-reached", Standing.UNDETERMINED, said, case=name)
        return
    if calls > 1 or claims_completion(again):
        said = f"{name} ran the tool {calls} times for one operation with an unknown result."
        found.append(Finding(UNKNOWN, "unknown.repeated", Standing.FAILED, said, case=name))
    probe.behave(Behaviour.HONEST)
    probe.wake()
    lifted = surface.settled(probe, "read")
    if not lifted.completed or probe.calls("read") > max(calls, 1):
        said = f"{name} did not settle the unknown result by reading, or called the tool again: {lifted.words:.200}"
        found.append(Finding(UNKNOWN, "unknown.not-lifted", Standing.FAILED, said, case=name))
    found += _decided(surface, probe)
    if not found:
        ways = "a reading or a person's decision" if surface.decides else "a reading"
        said = f"{name} blocks a second mutation until {ways}."
        found.append(Finding(UNKNOWN, "unknown.blocked", Standing.PASSED, said, case=name))
    yield from found


def _decided(surface: Surface, probe: Probe) -> Iterator[Finding]:
    """A person attests that nothing was done. Only then may the same operation run again."""
    if not surface.decides:
        return
    probe.behave(Behaviour.BLIND)
    surface.ask(probe, "decided")
    before = probe.calls("decided")
    probe.decide_not_done("decided")
    probe.behave(Behaviour.HONEST)
    surface.ask(probe, "decided")
    if (before, probe.calls("decided")) != (1, 2):
        said = (
            f"{surface.name} ran the tool {before} times before a decision, and {probe.calls('decided')} times in all."
        )
        yield Finding(UNKNOWN, "unknown.not-lifted", Standing.FAILED, said, case=surface.name)
