"""Binds an envelope to the contract of an action. The result is a plan, verified by the envelope's rules.

Custom verifiers run with each reading after the action. Their answers stand beside the record under `$verifiers`, and a
postcondition of their own judges them. The engine's rules make an inconclusive answer undetermined: nothing proceeds
and nothing is executed again. An exception, or any value except a VerificationResult, is an error of the verifier. The
contract itself must provide `read_after_write` (a reader with postconditions over its reading) and `invariant_check`
(an invariant).

The client binds once for each contract. Binding runs nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Final

from readback.agent_errors import BindingError
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.conditions_compiler import NOT_SYSTEM, mentioned
from readback.contracts.functions.verifiers import INVARIANTS_KEY
from readback.decisions.contracts.load import LoadedEnvelope
from readback.decisions.contracts.verifiers import Verifier
from readback.decisions.model.envelope import Envelope
from readback.decisions.model.verification import DETAIL_MAX_CHARS, VerificationResult, fault_of
from readback.decisions.model.words import MS_US, TIER_OF, VerificationResultWord
from readback.domain.context import Context
from readback.domain.contract.contract import Contract, ReaderTerms
from readback.domain.kind import Kind
from readback.domain.predicate import Postcondition
from readback.domain.side_effect import Consistency, Independence, depth
from readback.domain.verification.reading import Presence, Reading
from readback.engine.compiled_contract import Check, CompiledContract
from readback.errors import ReaderTypeError
from readback.ports.handlers import Handler

VERIFIERS_KEY: Final = "$verifiers"
READ_AFTER_WRITE, INVARIANT_CHECK = "read_after_write", "invariant_check"


def bound(plan: CompiledContract, loaded: LoadedEnvelope) -> CompiledContract:
    """Return the plan of an action under an envelope. Raises BindingError with every missing part."""
    envelope, verifiers = loaded.envelope, tuple(loaded.verifiers.values())
    lacking = [*_lacking(plan, envelope, verifiers)]
    if lacking:
        said = " ".join(f"{key}: {reason}" for key, reason in lacking)
        raise BindingError(
            f"{plan.contract.name!r} cannot act under {envelope.decision_type!r}. {said}",
            details={"contract": plan.contract.name, "problems": [{"key": k, "reason": r} for k, r in lacking]},
        )
    checks = tuple(_check(each, plan) for each in verifiers)
    contract = _narrowed(plan.contract, envelope, verifiers)
    contract = replace(contract, ensure=(*contract.ensure, *(each.postcondition for each in checks)))
    hands = plan.hands
    if verifiers:
        asking = _Asking(envelope, contract, verifiers)
        hands = replace(hands, readers=tuple(asking.beside(each) for each in hands.readers))
    return replace(plan, contract=contract.sealed(), ensure=(*plan.ensure, *checks), hands=hands)


def _lacking(plan: CompiledContract, envelope: Envelope, verifiers: tuple[Verifier, ...]) -> list[tuple[str, str]]:
    contract, found = plan.contract, list[tuple[str, str]]()
    tier = TIER_OF[contract.side_effect]
    methods = envelope.verification.methods
    timeout_us = envelope.verification.timeout_ms * MS_US
    if contract.unverifiable and envelope.requires_verification(tier):
        found.append(
            (
                "unverifiable",
                f"At {tier.value} the envelope requires verification, and the contract has no verification.",
            )
        )
    if READ_AFTER_WRITE in methods and not _reads_back(plan):
        found.append((f"ensure ({READ_AFTER_WRITE})", "No postcondition uses a reading of the target."))
    if INVARIANT_CHECK in methods and not any(_is_invariant(each) for each in plan.ensure):
        found.append((f"ensure ({INVARIANT_CHECK})", "No postcondition is about the system alone."))
    if verifiers and not contract.readers:
        found.append(("readers", "Custom verifiers answer together with a reading, and there is no reader."))
    if verifiers and contract.kind is Kind.DELETE:
        found.append(("kind", "A verifier's answer belongs to a record, and a deleted target has no record."))
    if timeout_us and contract.stable_for_us > timeout_us:
        found.append(("stable_for", f"The time is longer than verifyTimeoutMs, {envelope.verification.timeout_ms}."))
    row = depth(contract.side_effect)
    if verifiers and row.minimum_independence.rank > Independence.OTHER_CLIENT.rank:
        found.append(
            ("side_effect", "The contract's class requires more independence than a custom verifier declares.")
        )
    return found


def _reads_back(plan: CompiledContract) -> bool:
    """Whether some postcondition covers the target's own record."""
    return bool(plan.contract.readers) and any(
        "authoritative" in mentioned(each) and not _of_probes(each) for each in plan.ensure
    )


def _of_probes(check: Check) -> bool:
    return check.predicate is not None and any(INVARIANTS_KEY in path.steps for path in check.predicate.paths)


def _is_invariant(check: Check) -> bool:
    """Whether a postcondition names neither request nor answer: a probe's answer, or a condition on the system."""
    roots = mentioned(check)
    return "authoritative" in roots and not roots & NOT_SYSTEM


def _check(verifier: Verifier, plan: CompiledContract) -> Check:
    path = f"authoritative[{json.dumps(VERIFIERS_KEY)}][{json.dumps(verifier.name)}].passed"
    predicate = plan.predicates.compile(f"{path} == true", boolean=True)
    return Check(Postcondition(f"verifier.{verifier.name}", predicate.source), predicate)


def _narrowed(contract: Contract, envelope: Envelope, verifiers: tuple[Verifier, ...]) -> Contract:
    """Return a contract within the envelope's times, with readings at least as strong as before."""
    deadline_us = envelope.deadline_ms * MS_US
    verify_us = envelope.verification.timeout_ms * MS_US
    within_us = min(contract.within_us, verify_us or contract.within_us)
    may_change = contract.may_change
    if may_change is not None and verifiers:
        may_change = (*may_change, VERIFIERS_KEY)
    return replace(
        contract,
        version=f"{contract.version}+{envelope.decision_type}@{envelope.version}.{envelope.sha256[:12]}",
        execution=replace(contract.execution, timeout_us=min(contract.execution.timeout_us, deadline_us)),
        readers=tuple(_terms(each, verifiers, verify_us) for each in contract.readers),
        find_terms=_sooner(contract.find_terms, verify_us),
        lookup_terms=_sooner(contract.lookup_terms, verify_us),
        within_us=within_us,
        deadline_us=max(within_us, min(contract.deadline_us, verify_us or contract.deadline_us)),
        may_change=may_change,
    )


def _terms(reader: ReaderTerms, verifiers: tuple[Verifier, ...], verify_us: int) -> ReaderTerms:
    independence = reader.independence
    if verifiers:
        independence = min(independence, Independence.OTHER_CLIENT, key=lambda each: each.rank)
    sources = [reader.source, *(each.source for each in verifiers)]
    return replace(
        reader,
        source=" + ".join(sources),
        independence=independence,
        timeout_us=min(reader.timeout_us, verify_us or reader.timeout_us),
    )


def _sooner(search: ReaderTerms | None, verify_us: int) -> ReaderTerms | None:
    if search is None or not verify_us:
        return search
    return replace(search, timeout_us=min(search.timeout_us, verify_us))


@dataclass(frozen=True, slots=True)
class _Asking:
    """A reader with the verifiers' answers beside the record."""

    envelope: Envelope
    contract: Contract
    verifiers: tuple[Verifier, ...]

    def beside(self, hand: Handler) -> Handler:
        return hand.then(self._both, self._both_async)

    def _both(self, ctx: Context, arguments: Mapping[str, object], seen: object) -> object:
        return self._with(seen, self._answers(ctx, arguments, seen)) if _asks(ctx, seen) else seen

    async def _both_async(self, ctx: Context, arguments: Mapping[str, object], seen: object) -> object:
        if not _asks(ctx, seen):
            return seen
        return self._with(seen, await _apart(lambda: self._answers(ctx, arguments, seen)))

    def _answers(self, ctx: Context, arguments: Mapping[str, object], seen: object) -> dict[str, VerificationResult]:
        return {each.name: self._answer(each, ctx, arguments, seen) for each in self.verifiers}

    def _answer(
        self, verifier: Verifier, ctx: Context, arguments: Mapping[str, object], seen: object
    ) -> VerificationResult:
        try:
            answer = verifier.verify(episode_context(self.envelope, self.contract, ctx, arguments, seen))
        except SystemExit as error:
            raise ReaderTypeError(f"The verifier {verifier.name!r} ended the process in place of an answer.") from error
        why = fault_of(answer)
        if why:
            raise ReaderTypeError(f"The verifier {verifier.name!r} is at fault. {why}")
        assert isinstance(answer, VerificationResult)
        return answer

    @staticmethod
    def _with(seen: object, answers: Mapping[str, VerificationResult]) -> Reading:
        assert isinstance(seen, Reading)
        if not isinstance(seen.value, dict):
            raise ReaderTypeError("With custom verifiers, a reading must be an object.")
        told: dict[str, Json] = {}
        for name, answer in answers.items():
            said: dict[str, Json] = {"outcome": answer.outcome, "detail": answer.detail[:DETAIL_MAX_CHARS]}
            if (
                answer.outcome != VerificationResultWord.INCONCLUSIVE
            ):  # else left out, so that its postcondition is undetermined
                said["passed"] = answer.outcome == VerificationResultWord.PASS
            told[name] = said
        consistency = seen.consistency
        if consistency is not None:
            consistency = min(consistency, Consistency.STRONG, key=lambda each: each.rank)
        return replace(seen, value={**seen.value, VERIFIERS_KEY: told}, consistency=consistency)


def _asks(ctx: Context, seen: object) -> bool:
    """Whether verifiers run: after an attempt, and with a record."""
    return ctx.attempt > 0 and isinstance(seen, Reading) and seen.presence is Presence.PRESENT


def episode_context(
    envelope: Envelope, contract: Contract, ctx: Context, arguments: Mapping[str, object], seen: object
) -> dict[str, object]:
    """Return a verifier's input: the known episode, the action and the fresh reading.

    Each call gets a copy, so a verifier changes nothing for others. The input depends on the attempt alone, so a
    restart gives the same input.
    """
    kind, name = target_of(ctx.target, contract.name)
    return {
        "episodeId": f"ep_{ctx.action_id}",
        "decisionType": envelope.decision_type,
        "dteRef": {"decisionType": envelope.decision_type, "version": envelope.version},
        "action": {
            "actionId": ctx.action_id,
            "actionType": contract.name,
            "blastRadiusTier": TIER_OF[contract.side_effect].value,
            "targetRefs": [{"type": kind, "id": name}],
            "idempotencyKey": ctx.idempotency_key,
            "arguments": deepcopy(dict(arguments)),
        },
        "tenant": ctx.tenant,
        "principal": ctx.principal,
        "stamp": ctx.stamp,
        "attempt": ctx.attempt,
        "before": deepcopy(ctx.before),
        "observed": deepcopy(ctx.observed),
        "authoritative": deepcopy(seen.value) if isinstance(seen, Reading) else None,
    }


def target_of(target: str, contract: str) -> tuple[str, str]:
    """Return type and id of a target: `order/17` is an order, 17. An undivided target has the contract's own type."""
    kind, sign, name = target.partition("/")
    return (kind, name) if sign and kind and name else (contract, target)


async def _apart(call: Callable[[], dict[str, VerificationResult]]) -> dict[str, VerificationResult]:
    """Run a plain function on a loop of its own in a daemon thread, so the event loop continues.

    A hanging function stays behind in its thread after the reading's time limit, and delays no exit.
    """
    own = asyncio.new_event_loop()

    async def work() -> dict[str, VerificationResult]:
        return call()

    def serve() -> None:
        try:
            own.run_forever()
        finally:
            own.close()

    threading.Thread(target=serve, name="readback-verifier", daemon=True).start()
    asked = asyncio.run_coroutine_threadsafe(work(), own)
    asked.add_done_callback(lambda _: own.call_soon_threadsafe(own.stop))
    return await asyncio.wrap_future(asked)
