"""Meanings for reference.py where no table of the program has a text: keys of a contract, members of vocabularies.

Update this file after a change of `contracts/options.py` or of a vocabulary. The check fails for a missing or unused
entry.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Key(NamedTuple):
    """One row of the reference's table of keys."""

    takes: str
    without: str
    meaning: str


KEYS: Final[dict[str, Key]] = {
    "name": Key(
        "name: letters, digits, `_` `.` `-`, no digit first",
        "the function's name",
        "The contract's name in keys, in records and on the command line. Must be unique in a registry.",
    ),
    "version": Key(
        "text",
        '`"1"`',
        "A label for people. The record also contains the hash of the whole contract. An action keeps the "
        "contract version of its start.",
    ),
    "kind": Key(
        "a kind",
        "required",
        "The effect of the operation. The kind decides the required evidence; see [kinds](#kinds-of-operation).",
    ),
    "side_effect": Key(
        "a class",
        "required",
        "The possible harm. The class decides the depth of verification; see [classes](#side-effect-classes).",
    ),
    "target": Key(
        "template",
        "required",
        "The target of the action, such as `order/{requested.order_id}`. Part of the request's hash. The "
        "identity of each reading is compared with the target.",
    ),
    "identity": Key(
        "mapping of identity keys to expressions, to `{path, as}`, or to `not_offered`",
        "none",
        "The identity of a reading: `target`, `tenant`, `actor`, `region`, `account`, `permission_scope`, "
        "`stamp`, `version`. An expression returns the found value, or makes the comparison. `{path: EXPRESSION, "
        "as: FORM}` names the system's rule for the comparison of names: `exact`, `nfc`, `casefold`, `uuid`, "
        "`email` (the domain alone), `path`. The class decides the required keys.",
    ),
    "require": Key(
        "condition, or named conditions",
        "none",
        "Preconditions, checked before any call, over `requested`, `intended`, `before` and `scope` (with "
        "`scope.budget`). If a precondition is false or undetermined, nothing is executed.",
    ),
    "expected_version": Key(
        "expression over `requested`, `intended`, `scope`",
        "none",
        "The required version of the target before execution. A different version ends the action as stale, "
        "without execution.",
    ),
    "execute": Key(
        "mapping",
        "",
        "Rules for calls of the tool:",
    ),
    "execute.timeout": Key(
        "duration",
        "the class's",
        "Maximum duration of one call. After a timeout the effect is unknown.",
    ),
    "key_valid_for": Key(
        "duration",
        "none",
        "Time for the tool's memory of an idempotency key, from the first attempt. Without `key_valid_for` a lost "
        "request is not sent again after a restart.",
    ),
    "execute.key_valid_for": Key(
        "duration",
        "none",
        "The same as `key_valid_for`, beside `honours_key`.",
    ),
    "execute.honours_key": Key(
        "true or false",
        "false",
        "Declares: the tool executes an idempotency key only once. With this declaration Readback can retry a "
        "refuted and dead attempt, and send a lost request again under the same key. Rejected if the key does "
        "not reach the tool.",
    ),
    "execute.reversible": Key(
        "true or false",
        "true",
        "`false` forbids the contract's compensation.",
    ),
    "readers": Key(
        "list of readers",
        "none",
        "Shared readers (`@reader`), read after the readers of `.read`, in this order.",
    ),
    "quorum": Key(
        "whole number",
        "the class's",
        "Required number of agreeing readings. Only completed readings count. For a critical mutation each "
        "reading must come from a different source.",
    ),
    "ensure": Key(
        "named conditions, or effect groups of named conditions",
        "required",
        "The postconditions. At least one condition must use `authoritative`. With groups the outcome is partial "
        "if some groups hold and others do not.",
    ),
    "intermediate": Key(
        "condition, or named conditions",
        "none",
        "A state on the way to the wanted state, such as a queued job. At the close of the window this state is "
        "neither refuted nor reversed while the attempt may still have an effect. Later readings continue. An "
        "accepted or pending answer has the same meaning.",
    ),
    "fails_when": Key(
        "condition, or named conditions",
        "none",
        "A terminal failure at the source, such as a declined payment. A terminal failure refutes before the "
        "window closes. A clause without `authoritative` describes a request that the system always refuses. "
        "Such a clause refutes at once if a strong reading shows an unchanged target.",
    ),
    "may_change": Key(
        "list of paths under `authoritative`",
        "no frame",
        "The frame. Any other difference between `before` and the reading is a hidden side effect.",
    ),
    "on_unchanged": Key(
        "`accept`, `refuse` or `equivalent`",
        "`accept` for a set with a state, else `refuse`",
        "The meaning of a call without a change. `accept`: success, if every postcondition already held before "
        "the call. `refuse`: the request names a change, such as an edit or a deletion. Without a change the "
        'action is refuted and reported as "nothing was changed". The final state is FAILED in two cases: a '
        "reader with `whole_region` read the same state strongly before and after, or `fails_when` names the "
        "refusal and a strong reading shows an unchanged target. In all other cases the action stays unknown or "
        "a person decides. `refuse` reads the state before execution in every class. The default of a set is "
        "`accept` only if `ensure` names a state: a clause judges fields of `authoritative` without `before`, or "
        "no clause names `before`. `equivalent` is for kinds with the column *has to be ours*, below high risk. "
        "A second effect of the same operation then leaves the same state as a single effect, and is recorded as "
        "a replay.",
    ),
    "noop": Key(
        "`allow`, `refuse` or `equivalent`",
        "as `on_unchanged`",
        "The older name of `on_unchanged`. `allow` means `accept`. Both names give a contract the same hash.",
    ),
    "within": Key(
        "duration",
        "the class's",
        "The window. Until the window closes, a violated postcondition counts as propagation, not as a refutation.",
    ),
    "polls": Key(
        "list of durations",
        "0 s, 2 s, 4 s, 8 s",
        "Pauses before each reading, with a jitter of up to a tenth. After the list, the last pause is doubled "
        "each time. The close of the window and the deadline always have a reading.",
    ),
    "stable_for": Key(
        "duration",
        "0 s",
        "Time for all postconditions to hold before a success is reported.",
    ),
    "deadline": Key(
        "duration",
        "`within`",
        "End of verification. An undetermined action then times out, and the recovery table decides.",
    ),
    "late_window": Key(
        "duration",
        "not known (0 s for an ephemeral write, if the tool has ended and announces no further effects)",
        "Time for a late effect of the attempt. Without a late window, absence never becomes failure.",
    ),
    "watch": Key(
        "duration, or mapping of `after`, `every`, `for`, `ensure`",
        "no watch",
        "Readings after a success. A duration means one later reading. In the mapping, `after` (else `every`) is "
        "the time of the first reading, `every` the interval, and `for` the whole time, with at most 1,000 "
        "readings. `ensure` names the postconditions for later readings (else all).",
    ),
    "mode": Key(
        "`enforced` or `shadow`",
        "enforced, unless the caller and the settings say shadow",
        "`shadow`: the action is recorded and judged, and the judgement is for the operator alone. The operator's "
        "settings must allow the contract. `enforced`: never in shadow mode.",
    ),
    "key_fields": Key(
        "list of arguments",
        "none",
        "The arguments that name the operation if the caller passes no operation id.",
    ),
    "key_kept": Key(
        "duration",
        "30 d",
        "Lifetime of a settled operation's record. Until then a repeated operation gets the recorded outcome. An "
        "open operation is never forgotten.",
    ),
    "principals": Key(
        "list of patterns",
        "anyone",
        "The permitted principals, such as `agent:*`.",
    ),
    "scopes": Key(
        "list of names",
        "none",
        "Permission scopes of the contract. The client must hold all of them (`Readback.open(scopes=...)`). "
        "Otherwise nothing is executed. A compensation or a step of a saga needs no further check: the original "
        "action or the saga was already admitted.",
    ),
    "redact": Key(
        "list of paths such as `requested.card`",
        "none",
        "Fields neither stored nor shown, under `requested`, `intended`, `observed`, `before`, `authoritative`. "
        "No digest of such a field is stored either.",
    ),
    "tell": Key(
        "list of paths under `authoritative` or `before`",
        "none",
        "Fields of the system of record for the model's text, bounded and marked as data. No other field reaches "
        "the model. Fields under `before` are reported if the action is not verified, such as the error of a "
        "failing statement.",
    ),
    "unverifiable": Key(
        "reason",
        "none",
        "Replaces the readers: no system of record can confirm the effect. Such an action is never reported as done.",
    ),
    "proves": Key(
        "`submitted` or `delivered`",
        "`submitted` for send",
        "The proof by the readings of a send. Readback reports no more than this.",
    ),
    "approval": Key(
        '`"required"`, or a mapping',
        "none; required for critical mutations",
        "A person must approve the action before the attempt; see [approvals](../how-to/approvals.md):",
    ),
    "approval.people": Key(
        "1 or 2",
        "1",
        "Number of required approvers, with different names and keys.",
    ),
    "approval.expires": Key(
        "duration",
        "24 h",
        "Lifetime of the request. An expired action ends without execution, and may be repeated.",
    ),
    "approval.when": Key(
        "expression over `requested`, `intended`, `scope`",
        "always",
        "The requests with a required approval. An undetermined condition requires an approval. Not for critical "
        "mutations.",
    ),
    "freeze": Key(
        "list of `resource`, `principal`, `tool`, `tenant`",
        "`resource`",
        "The frozen subjects after a severe outcome, until an operator lifts the freeze: always the target, and "
        "the named subjects. New actions on a frozen subject are refused before execution.",
    ),
}

WORDS: Final[dict[str, dict[str, str]]] = {
    "Presence": {
        "present": "The object exists with this value.",
        "absent": "The object does not exist. An existing object would have been visible.",
        "not_visible": "Nothing was shown, possibly for lack of permission. Never counts as absence.",
        "unavailable": "The source did not answer: down, 5xx, timeout. Never counts as absence.",
    },
    "ObservationStatus": {
        "success": "The tool reports success. This is a claim, not a proof.",
        "accepted": "The tool accepted the request and has not executed the request yet (202, `queued`).",
        "pending": "The tool is processing the request (`processing`).",
        "partial": "Some parts were done and others not (207, mixed results).",
        "error": "The tool reports a failure: `success: false`, an error field, 4xx, 5xx, an exception, a redirect.",
        "timeout": "No answer in time, 408 or 504. The effect is open.",
        "cancelled": "The call was cancelled after the start. The effect is open.",
        "malformed": "The answer has no structured statement. Readback draws no conclusion from the text.",
        "none": "No answer is on record: the process died, or the attempt was interrupted.",
        "not_dispatched": "Provably nothing left this process. Only after this answer nothing is read back.",
    },
    "Verdict": {
        "verified": "Every postcondition holds, over a trusted reading.",
        "refuted": "A postcondition is finally violated: a terminal failure, or a strong reading after the window.",
        "undetermined": "The evidence allows no verdict; `why` gives the reason. Neither success nor failure.",
        "not_checked": "Nothing was verified, because nothing was executed. Never counts as passed.",
    },
    "Attribution": {
        "ours": (
            "Proven to be the effect of this attempt: by the stamp, by the source's own statement, or by the "
            "record under the key."
        ),
        "other_actor": "The last writer left another stamp or name.",
        "already_so": "The state was the same before, and nothing has changed.",
        "unknown": "The evidence does not show the author of the state.",
    },
    "Level": {
        "0": "Raw: the tool's answer, as text.",
        "1": "Normalised: the tool's answer, in Readback's vocabulary.",
        "2": "Read back: a system of record was read.",
        "3": "Reconciled: every postcondition was compared with the reading.",
        "4": "Audit-confirmed: covered by a signed checkpoint. Only a verified outcome reaches this level.",
    },
    "Finding": {
        "verified": "Every postcondition holds.",
        "no_op_allowed": "The state already held before the call, and the contract permits a call without a change.",
        "propagation_delay": (
            "Every postcondition holds. The state must still prove to be stable and without a second effect."
        ),
        "failed_before_effect": "The failure provably precedes dispatch. There is nothing to verify.",
        "refuted_dead": "A strong, complete reading shows no effect, and the attempt can have no later effect.",
        "no_op_failure": "A change was required, and nothing changed.",
        "target_missing": "The target does not exist.",
        "stale_state": "Another actor has changed the target.",
        "authority_mismatch": "The reading contradicts the tool's claim, and nothing is final yet.",
        "value_mismatch": "The target changed, but not as required.",
        "drift": "The action was verified, and a later reading contradicts the result.",
        "partial_success": "Some effect groups hold and others do not.",
        "provider_outage": "The system of record could not be read.",
        "pending_timeout": "The call gave no answer, and the record under the key reports work in progress.",
        "verification_timeout": "The deadline passed without a verdict.",
        "unverifiable": "No system of record can confirm the effect.",
        "unknown": "The evidence allows no conclusion: readings disagree, or the author of the state is not proven.",
        "verifier_error": "A reader or a postcondition failed, or read outside the scope.",
        "policy_version_mismatch": (
            "The list of approvers or the expression engine changed between the start and the decision."
        ),
        "approval_mismatch": "The action has no approval, or the approval covers something else.",
        "compensation_required": "A committed effect must be reversed, because the caller cancelled the action.",
        "hidden_side_effect": "Something outside the frame changed as well.",
        "duplicate_side_effect": "Several effects carry the stamp of this operation.",
        "compensation_failed": "The reversal failed, was refused or is held.",
        "wrong_target": "An effect of this action is at a forbidden place.",
    },
    "KeyStatus": {
        "PENDING": "In flight, unknown, or waiting for a person. Blocks every second execution. Never expires.",
        "COMPLETED": "Reconciled as success: a verdict, never a mere return.",
        "FAILED_RETRYABLE": "No effect, and no later effect is possible. The same operation may run again.",
        "FAILED_FINAL": "Finally failed. The same operation returns this failure.",
        "COMPENSATED": "The effect was reversed. A new intention needs a new operation.",
        "EXPIRED": "A settled record past the end of `key_kept`. The operation counts as new again.",
    },
    "SagaOutcome": {
        "steps": "The steps by name, in the given order.",
        "name": "The saga's name.",
        "heading": "The direction of the saga: onward, backward or forward.",
        "because": "The step behind the last change of direction, or the awaited step.",
        "quiet": "True while the saga waits for a person, for an approval, or for an unknown result.",
    },
    "StepOutcome": {
        "name": "The step's name.",
        "word": (
            "The reported status of the step: completed, left, reversed, reversing, not_reversed, failed, "
            "unknown, review, held, pending or not_begun."
        ),
        "outcome": "The outcome of the step's action; None before the start.",
        "compensation": "The outcome of the step's reversal; None without a reversal.",
        "state": "The state of the step's action; None before the start.",
        "contract": "The contract's name.",
        "region": "The position relative to the pivot: before, pivot or after.",
        "after": "The preceding steps.",
        "tries": "The number of starts under the step's key.",
        "code": "The reason for a failed proposal.",
        "detail": "The same reason in one line.",
        "verified_us": "The time in microseconds of the last reading that showed the step's effect; 0 without one.",
        "as_json()": "The step's part of the saga's outcome as plain data.",
    },
    "Outcome": {
        "id": "The action's id in the ledger.",
        "verified": "True only when reconciled as success.",
        "state": "The action's state.",
        "verdict": "The verdict of the readings.",
        "why": "The reason for an undetermined verdict; empty for any other verdict.",
        "discrepancy": "The difference between the state and the intent, or None.",
        "attribution": "The author of the state.",
        "level": "The trust level.",
        "message": "The only text for users.",
        "for_model()": ("The only text for the model's next context. The text states whether a repetition is allowed."),
        "may_repeat": "Whether the operation may be proposed again: the key was released, for a recorded reason.",
        "replayed": "Whether an earlier run of the same operation recorded this outcome.",
        "standing": "Whether the reported success still stands: verified, not contradicted later, not reversed.",
        "value": "The authoritative state of a verified and standing outcome; else NotVerifiedError is raised.",
        "exception": (
            "The exception raised by the tool during this call, with traceback; None after a restart or for a replay."
        ),
        "settled": "Whether no progress is near: the action has ended, or stays unknown.",
        "contested": "Whether a later reading or a person contradicts the reported outcome.",
        "claims": "The claims about the action, with a status each; see [claims](outcomes.md#claims).",
        "claimed_us": (
            "Time of the first verification, in microseconds since the epoch; 0 without a verification. The "
            "first verification makes the claims."
        ),
        "version": "The number of the action's entries behind this outcome. A decision names the version it saw.",
        "said": "The last event of each claim. An undisputed claim has no event.",
        "fallen": "Ids of fallen claims behind this action's plan, including claims behind those claims.",
        "mode": "`shadow` for an action in [shadow mode](../shadow.md); empty for an enforced action.",
        "shadow": (
            "The judgement of an action in shadow mode, for the operator; None before the judgement, and for an "
            "enforced action."
        ),
        "unworded": "Whether the tool's own answer is handed on as it is: a called action in shadow mode.",
        "attempted": "Whether a request may have been sent: false only if provably nothing was sent.",
        "in_doubt": (
            "Whether the same request under another operation could act twice: the request has not ended, or its "
            "effect is not known."
        ),
        "model_status": "The state in the model's words: the head of `for_model()`.",
        "repeat_allowed": (
            "Whether the model may request the operation again. Doubt about the state outweighs `may_repeat`."
        ),
        "cite()": "A citation of the verified state, for a [final report](../reports.md).",
        "raise_unless_verified()": (
            "Returns a verified and standing outcome unchanged; else raises NotVerifiedError with the outcome."
        ),
        "exit_code": "The command line's exit code for the outcome.",
        "tool_words": "The tool's own words, for a settled and unverified action.",
        "as_json()": "The outcome as plain data.",
        "contract": "The contract's name.",
        "contract_version": "The contract's version.",
        "kind": "The kind of operation.",
        "target": "The target of the action.",
        "operation": "The operation's id; a fresh id if the caller passed none.",
        "tenant": "The owner of the data.",
        "principal": "The acting principal.",
        "stamp": "The mark inside the artefact.",
        "ledger_entry": "The hash of the action's last entry.",
        "trace": "The caller's trace id.",
        "authoritative": "The last reading of the system of record, as JSON; None without a visible object.",
        "before": "The reading before execution.",
        "observation": "The tool's answer: evidence, never truth.",
        "postconditions": "Each judged postcondition, with the compared values.",
        "parts_done": "The effect groups of a partial outcome that hold.",
        "parts_open": "The effect groups of a partial outcome that do not hold.",
        "row": "The deciding row of the recovery table.",
        "recovery": "The action of the deciding row.",
        "code": "The reason for a missing execution or an early stop; see [errors](errors.md#all-errors).",
        "detail": "The same reason in one line, or the finding.",
        "hold": "The reason for a validated action's wait.",
        "review": "The reason for a review by a person; empty without a review.",
        "incident": "The reason for an alarm.",
        "compensation": "The id of the reversing action.",
        "resolution": "The statement of a person about the action, if any. Never a verification.",
        "approval": "The id of the awaited or used approval.",
        "approved_by": "The names of the approvers.",
        "attempts": "The number of actual or possible calls of the tool.",
        "due_us": "Time of the next look at the action, in microseconds since the epoch.",
        "erased": "Whether the payloads were erased. Request, answer and readings are None after an erasure.",
        "erased_us": "Time of the last erasure, in microseconds since the epoch; 0 without an erasure.",
        "told": "The fields under `tell`.",
        "proves": "The proof by the readings of a send.",
        "wording()": "`message`, `for_model()` and `repeat_allowed` together, at the cost of a single call.",
    },
    "Claim": {
        "id": "The action's id, and `:happened` or `:holds`.",
        "action_id": "The id of the claim's action.",
        "kind": (
            "happened: the action was done at the time. holds: the effect still exists. `holds` falls together "
            "with `happened`."
        ),
        "status": "none, standing, contested, retracted or reinstated.",
        "standing": "Whether consumers may rely on the claim: standing or reinstated.",
        "made_us": "Time of the first verification, in microseconds since the epoch; 0 without a verification.",
        "said": ("The last event of the claim: reason, confidence, recommendation, author, and the dependent actions."),
        "grounds": "The entries behind the claim, by number and leaf hash.",
        "version": "The action's version at the time of the look.",
        "as_json()": "The claim as plain data.",
    },
    "Context": {
        "action_id": "The action's id.",
        "tenant": "The owner of the data.",
        "principal": "The acting principal.",
        "operation": "The operation's id.",
        "target": "The target of the action.",
        "idempotency_key": "Prevents a second execution, if the tool honours the key. The same for every attempt.",
        "stamp": (
            "The mark inside the artefact, found again by the reader's separate path. The same for every attempt."
        ),
        "attempt": "The number of the attempt, from 1.",
        "strong": "Whether the reader must bypass caches and replicas.",
        "observed": "The tool's answer: a hint, such as a provider's id; None before an answer.",
        "run": "The caller's run id.",
        "trace": "The caller's trace id.",
        "before": "The reading before execution; None before this reading, and for an absent object.",
        "reverses": "In a compensation: the stamp of the action to reverse; else empty.",
        "sampled": "False where the caller's trace is not sampled.",
    },
    "Situation": {
        "side_effect": "The class of the contract.",
        "within_window": "The window is open and no verdict is final. The next reading may change the result.",
        "maybe_stale": "The deciding reading was weaker than strong, and a stronger reading is available.",
        "reversible": "The possible reversal: a local boundary, a compensation, or none.",
        "pivot_passed": (
            "The saga is past the point of no return: the step follows the pivot, or is the pivot with a visible "
            "effect."
        ),
        "effect_shown": "A reading shows an effect of this action.",
        "executed": "An attempt may have reached the tool.",
        "key_record": "The result of the attempt can be looked up under the key (`.lookup`).",
        "in_progress": "The answer was accepted or pending, or the contract calls the state intermediate.",
        "resend_due": "The request was lost, no effect is visible, and the honoured key may be sent again now.",
        "key_honoured": "The contract declares that the tool executes a key only once, and attempts are left.",
        "dead": "The attempt can have no later effect.",
        "equivalent_duplicate": "The duplicate leaves an equivalent state, by `on_unchanged='equivalent'`.",
        "repeated": "The counter of consecutive faults of this contract or source is at the limit.",
        "late_open": "An effect may still arrive late.",
        "searched": "A search or look-up covered all other places of the effect, or the tool refused the request.",
    },
}

ROOT_MEANINGS: Final[dict[str, str]] = {
    "intended": "The goal, if wider than the request; else the request.",
    "requested": "The bound arguments.",
    "observed": "The tool's answer: a hint, never truth.",
    "before": "The reading before execution; null without such a reading, and for an absent object.",
    "authoritative": "The reading under judgement; null for an absent object.",
    "scope": (
        "`tenant`, `principal`, `operation`, `stamp`, `idempotency_key`, `target`, `run`, `attempt`, "
        "`attempted_s` (the time of the attempt, in seconds since 1970), `budget`."
    ),
}

OPERATORS: Final[dict[str, str]] = {
    "a ? b : c": "`b` if `a` is true, `c` if `a` is false; the other branch is not evaluated",
    "a || b": "or",
    "a && b": "and",
    "a == b, a != b, a < b, a <= b, a > b, a >= b": (
        "equality and order of two values of the same type; texts in the order of Unicode"
    ),
    "a in b": "whether a list contains an equal value, or an object contains the key",
    "a + b, a - b": (
        "sum and difference of numbers, timestamps and durations; `+` also joins two texts, two lists, or bytes"
    ),
    "a * b, a / b, a % b": (
        "product, quotient and remainder of numbers; `%` for whole numbers, with the sign of the first"
    ),
    "!a, -a": "the negation of a truth value, or of a number",
    "a.name, a['name'], a[0]": (
        "a field, or an element of a list, from 0; undetermined for a missing field or element"
    ),
    "has(a.name)": "whether an object has the field",
    "list.all(x, p), list.exists(x, p), list.exists_one(x, p)": (
        "whether `p` holds for every value, for at least 1 value, for exactly 1 value; also over the keys of an object"
    ),
    "list.filter(x, p), list.map(x, e), list.map(x, p, e)": (
        "the values with a true `p`; the value of `e` for each element"
    ),
}

ACCESSORS_MEANING: Final = (
    "the named part of a timestamp in UTC, or at an offset such as `t.getHours('+02:00')`. Months, days of a "
    "month, of the week (from Sunday) and of the year count from 0, `getDate` from 1. For a duration: the hours, "
    "minutes, seconds, or the milliseconds"
)

LIMITS: Final[dict[str, str]] = {
    "audit.feedback.findings.DRIFTED_PERMILLE_MAX": "Successes contradicted by a later reading, per thousand.",
    "domain.grounding.report.REPORT_MAX_BYTES": "Size of a checked final report.",
    "domain.grounding.report.CITATIONS_MAX": "Citations in one final report.",
    "domain.grounding.report.SHOWN_MAX_CHARACTERS": "Length of the shown text at a fault.",
    "domain.contract.watch.LOOKS_MAX": "Readings of a contract's watch after a success.",
    "domain.contract.watch.TRIES_MAX": "Executed readings of a watch, with undetermined readings included.",
    "domain.contract.watch.CHANGES_MAX": "Falls of a watched state before the end of the watch.",
    "domain.contract.watch.RETRY_FIRST_US": "First pause before a retry of an undetermined later reading.",
    "domain.saga.planner.HELD_FIRST_US": "First pause of a held saga before the next look.",
    "domain.saga.planner.HELD_MAX_US": "Longest pause of a held saga.",
    "domain.saga.planner.REVIEW_FIRST_US": "First pause of a saga in review before the next look.",
    "domain.saga.planner.REVIEW_MAX_US": "Longest pause of a saga in review.",
    "domain.saga.planner.FORWARD_FIRST_US": "First pause before the second try of a step after the pivot.",
    "domain.saga.planner.FORWARD_MAX_US": "Longest pause between two tries of such a step.",
    "canon.limits.KEY_MAX_BYTES": "One key of an object.",
    "canon.limits.STRING_MAX_BYTES": "One text.",
    "canon.limits.EXPRESSION_MAX_BYTES": "One expression.",
    "canon.limits.EXPRESSION_DEPTH_MAX_LEVELS": "Nesting of brackets in an expression.",
    "canon.limits.EXPRESSION_NESTED_LOOPS_MAX": "Nesting of `all`, `exists`, `map` and `filter`.",
    "canon.limits.EXPRESSION_ADDITIONS_MAX": "Plus signs in an expression.",
    "canon.limits.EXPRESSION_EDITS_MAX": "Replacements in one call of `edited`.",
    "canon.limits.EXPRESSION_PATTERN_MAX_CHARS": "A pattern of `matches`.",
    "domain.contract.contract.ATTEMPTS_MAX": "Attempts of one action, all under the same key.",
    "domain.contract.contract.POLLS_MAX": (
        "Readings of one attempt. After the limit, only the close of the window and the deadline have readings."
    ),
    "domain.contract.contract.LATE_POLLS_MAX": "Readings for a late effect without a known late window.",
    "domain.outcome.reporting.TOLD_FIELDS_MAX": "Fields of `tell` in a text for the model.",
    "domain.outcome.reporting.TOLD_VALUE_MAX_CHARACTERS": "One value of a `tell` field.",
    "domain.outcome.reporting.POINTER_MAX_CHARACTERS": "One pointer in a text for the model.",
    "domain.outcome.reporting.PARTS_MAX": "Named parts of a partial outcome.",
    "domain.contract.approval.BOUND_MAX_BYTES": "The shown and signed bytes of an approval request.",
    "domain.contract.approval.TOKEN_MAX_BYTES": "One signed token.",
    "domain.contract.approval.PEOPLE_MAX": "Required approvers of one action.",
    "domain.contract.approval.APPROVERS_MAX": "Approvers in the settings.",
    "domain.contract.approval.PATTERNS_MAX": "Tenants, or contracts, of one approver in the settings.",
    "domain.contract.approval.NAME_MAX_CHARACTERS": "An approver's name.",
    "domain.belief.text.NAME_MAX_CHARACTERS": "The name of a target, an operation or a run in the text of a run.",
    "domain.belief.text.REASON_MAX_CHARACTERS": "The reason of a freeze in the text of a run.",
    "domain.belief.text.PERSON_LINES_MAX": (
        "Settled results in the text of a run for a person. The newest results are shown."
    ),
    "audit.feedback.findings.UNDETERMINED_PERMILLE_MAX": "Actions without a verdict, per thousand ended actions.",
    "audit.feedback.findings.CLAIMED_REFUTED_PERMILLE_MAX": "Refuted claims of a tool, per thousand.",
    "audit.feedback.findings.ACKNOWLEDGED_REFUTED_PERMILLE_MAX": (
        "Refuted requests after an acceptance by the tool, per thousand."
    ),
    "audit.feedback.findings.LOST_PERMILLE_MAX": "Calls without an answer, per thousand.",
    "audit.feedback.findings.SOURCE_FAULTS_PERMILLE_MAX": "Failed readings, per thousand readings of a source.",
    "audit.feedback.findings.OUTAGE_PERMILLE_MAX": "Actions refused because the source was down, per thousand.",
    "audit.feedback.findings.DISCREPANCY_PERMILLE_MAX": "Actions with a difference from the intent, per thousand.",
    "audit.feedback.findings.VERDICT_MAX_US": "Time from the first look to the verdict, for 95 % of the actions.",
    "audit.feedback.findings.COMPENSATION_FAILED_MAX": "Failed compensations of a contract.",
    "audit.feedback.findings.WITHHELD_MAX": "Readings by a source of another tenant's or target's record.",
    "contracts.options.NAME_MAX_CHARS": "Names and versions of contracts.",
    "contracts.options.ENTRIES_MAX": "Entries of one key of a contract.",
    "contracts.options.REASON_MAX_CHARS": "The reason of `unverifiable`.",
    "contracts.options.DURATION_MAX_US": "Any duration in a contract.",
    "contracts.templates.TEMPLATE_MAX_CHARS": "A template.",
    "contracts.templates.RENDERED_MAX_CHARS": "The rendered text of a template.",
    "contracts.templates.RENDERED_MAX_BYTES": "The rendered text of a template in UTF-8.",
    "engine.schedule.LATE_POLL_FIRST_US": (
        "First pause before a look for a late effect. Each further pause is doubled."
    ),
    "engine.schedule.LATE_JITTER_MAX_US": "Longest delay of a look for a late effect after the planned time.",
    "engine.schedule.LATE_POLL_MAX_US": "Longest pause between looks for a late effect.",
    "engine.schedule.LEASE_MARGIN_US": "Extra time of a lease beyond the longest tool call and round of readings.",
    "engine.stages.verify.FOUND_MAX": "Effects returned by `.find`. A larger result is incomplete.",
    "engine.values.reader_results.ERROR_TEXT_MAX": "Stored length of a reader's error.",
    "engine.values.reader_results.FORMS_MAX": "Fields of a reading with a normal form stated by the source.",
    "systems.files.source.ENTRIES_MAX": "Entries of a folder with a manifest. The reading of a larger folder fails.",
    "systems.files.source.LINES_MAX_BYTES": "A file read line by line. The reading of a larger file fails.",
    "systems.mail.source.HEADER_MAX_BYTES": "The part of a message's header in a reading.",
    "systems.mail.executor.RECIPIENTS_MAX": "Recipients of one message.",
    "systems.mail.executor.REPLY_MAX_BYTES": "One reply of a mail server, with all lines.",
    "systems.mail.executor.REPLY_LINE_MAX_BYTES": "One line of a mail server's reply.",
}
