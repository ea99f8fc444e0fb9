"""Words for reference.py where a table of the program has none: keys of a contract, members of vocabularies.

Read by whoever changes `contracts/options.py` or a vocabulary: what is missing here, or here and not there, fails
the check.
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
        "What keys, records and the command line call the contract. Unique in a registry.",
    ),
    "version": Key(
        "text",
        '`"1"`',
        "For people. The record also holds the hash of the whole contract, and an action keeps the one it began with.",
    ),
    "kind": Key(
        "a kind", "required", "What the operation does, and so what proves it; see [kinds](#kinds-of-operation)."
    ),
    "side_effect": Key(
        "a class",
        "required",
        "How much harm it could do, and so how deep it is verified; see [classes](#side-effect-classes).",
    ),
    "target": Key(
        "template",
        "required",
        "What is aimed at, such as `order/{requested.order_id}`. Part of the request's hash; what identity is held "
        "against.",
    ),
    "identity": Key(
        "mapping of identity keys to expressions, to `{path, as}`, or to `not_offered`",
        "none",
        "Of whom a reading is: `target`, `tenant`, `actor`, `region`, `account`, `permission_scope`, `stamp`, "
        "`version`. An expression gives the value found, or compares by itself. `{path: EXPRESSION, as: FORM}` says by "
        "which rule the system compares such names: `exact`, `nfc`, `casefold`, `uuid`, `email` (the domain alone), "
        "`path`. The class says which are needed.",
    ),
    "require": Key(
        "condition, or named conditions",
        "none",
        "What must hold before anything is called, over `requested`, `intended`, `before` and `scope` (with "
        "`scope.budget`). Where it does not hold, or cannot be told, nothing is executed.",
    ),
    "expected_version": Key(
        "expression over `requested`, `intended`, `scope`",
        "none",
        "The version that the target must have before execution. Another one ends the action as stale, unexecuted.",
    ),
    "execute": Key("mapping", "", "How the tool may be called:"),
    "execute.timeout": Key("duration", "the class's", "How long one call may take. After that the effect is unknown."),
    "key_valid_for": Key(
        "duration",
        "none",
        "How long the tool remembers a key, from the first attempt. Without it a lost "
        "request is not sent again after a restart.",
    ),
    "execute.key_valid_for": Key("duration", "none", "The same as `key_valid_for`, beside `honours_key`."),
    "execute.honours_key": Key(
        "true or false",
        "false",
        "The tool executes one idempotency key once. Only then a refuted and dead attempt is made again, and a lost "
        "request sent again under its key. Refused where the key does not reach the tool.",
    ),
    "execute.reversible": Key("true or false", "true", "False forbids the compensation that the contract has."),
    "readers": Key(
        "list of readers", "none", "Shared readers (`@reader`), read after those of `.read`, in this order."
    ),
    "quorum": Key(
        "whole number",
        "the class's",
        "How many readings that really ran have to agree; for a critical mutation of as many sources.",
    ),
    "ensure": Key(
        "named conditions, or effect groups of named conditions",
        "required",
        "What must be true afterwards. At least one has to look at `authoritative`. Groups make an outcome partial "
        "where some hold and others do not.",
    ),
    "intermediate": Key(
        "condition, or named conditions",
        "none",
        "A state on the way to the wanted one, such as a queued job. When the window closes it is neither refuted nor "
        "reversed while the attempt may still land. Later looks go on. An answer of accepted or pending means the "
        "same.",
    ),
    "fails_when": Key(
        "condition, or named conditions",
        "none",
        "A terminal failure at the source, such as a declined payment: it refutes before the window closes. A "
        "clause that does not look at `authoritative` says that such a request is refused: it refutes at once "
        "where the target is strongly read as unchanged.",
    ),
    "may_change": Key(
        "list of paths under `authoritative`",
        "no frame",
        "The frame: whatever else differs between `before` and the reading is a hidden side effect.",
    ),
    "on_unchanged": Key(
        "`accept`, `refuse` or `equivalent`",
        "`accept` for a set that names a state, else `refuse`",
        "The meaning of a call without a change. `accept`: success, where every postcondition held before the "
        "call already. `refuse`: the request names a change, such as an edit or a deletion; without a change it "
        'is refuted and told as "nothing was changed". The end is FAILED where a reader with `whole_region` read '
        "the same strongly before and after, or where `fails_when` names the refusal and the target is strongly "
        "read as unchanged; else it is unknown or a person decides. `refuse` has the state read before, whatever "
        "the class. The default of a set is `accept` only where `ensure` names a state: a clause judges fields of "
        "`authoritative` without `before`, or no clause names `before`. For kinds that have to be our own doing, "
        "below high risk, `equivalent` says that a second effect of the one operation leaves what one alone "
        "leaves: it is recorded as a replay.",
    ),
    "noop": Key(
        "`allow`, `refuse` or `equivalent`",
        "that of `on_unchanged`",
        "The older name of `on_unchanged`: `allow` stands for `accept`. A contract keeps its hash under either name.",
    ),
    "within": Key(
        "duration",
        "the class's",
        "The window: until it closes, a violated postcondition is still propagating and not refuted.",
    ),
    "polls": Key(
        "list of durations",
        "0 s, 2 s, 4 s, 8 s",
        "Pauses before each reading, jittered by up to a tenth; then the last one, doubled each time. The window's "
        "close and the deadline always have a reading.",
    ),
    "stable_for": Key("duration", "0 s", "For how long everything has to hold before it is told as success."),
    "deadline": Key(
        "duration", "`within`", "When verification ends; what is open then has timed out and goes to the table."
    ),
    "late_window": Key(
        "duration",
        "not known (0 s where an ephemeral write's tool has ended, and does not say that more follows)",
        "Until when an effect of the attempt may still land. Without it, absence never becomes failure.",
    ),
    "watch": Key(
        "duration, or mapping of `after`, `every`, `for`, `ensure`",
        "it is not watched",
        "When it is looked at again after success: once after a time; or first `after` (else `every`), then `every` so "
        "often, `for` so long, at most 1,000 times. `ensure` names the postconditions that have to hold later (else "
        "all).",
    ),
    "key_fields": Key(
        "list of arguments",
        "none",
        "The arguments that name the operation where the caller gives no operation id.",
    ),
    "key_kept": Key(
        "duration",
        "30 d",
        "How long a settled operation answers for itself: until then a repeated one gets the recorded outcome. An open "
        "one is never forgotten.",
    ),
    "principals": Key("list of patterns", "anyone", "Who may run it, such as `agent:*`."),
    "scopes": Key(
        "list of names",
        "none",
        "Permission scopes of which the client has to hold all (`Readback.open(scopes=...)`); else nothing is done. A "
        "compensation, and a step of a saga, was admitted with what it belongs to.",
    ),
    "redact": Key(
        "list of paths such as `requested.card`",
        "none",
        "Neither stored nor shown: under `requested`, `intended`, `observed`, `before`, `authoritative`. No digest of "
        "it is kept either.",
    ),
    "tell": Key(
        "list of paths under `authoritative` or `before`",
        "none",
        "Fields of the system of record that reach the model's text, bounded and marked as data. Nothing else "
        "does. Those under `before` are told where the action is not verified, such as the error with which a "
        "statement fails.",
    ),
    "unverifiable": Key(
        "reason",
        "none",
        "In place of readers: no system of record can confirm it. It is never told as done.",
    ),
    "proves": Key(
        "`submitted` or `delivered`",
        "`submitted` for send",
        "What the readings of a send prove, and no more than that is said.",
    ),
    "approval": Key(
        '`"required"`, or a mapping',
        "none; required for critical mutations",
        "A person has to approve it before it is attempted; see [approvals](how-to/approvals.md):",
    ),
    "approval.people": Key("1 or 2", "1", "How many people have to, by different names and keys."),
    "approval.expires": Key("duration", "24 h", "For how long it waits. Then it ends unexecuted, and may be repeated."),
    "approval.when": Key(
        "expression over `requested`, `intended`, `scope`",
        "always",
        "For which requests. What cannot be told is approved by a person. Not for critical mutations.",
    ),
    "freeze": Key(
        "list of `resource`, `principal`, `tool`, `tenant`",
        "`resource`",
        "What is frozen after a severe outcome, until an operator lifts it: the target always, and what else is named. "
        "New actions on what is frozen are refused before they are executed.",
    ),
}

WORDS: Final[dict[str, dict[str, str]]] = {
    "Presence": {
        "present": "The object is there, and looks so.",
        "absent": "The object is not there, and would have been seen.",
        "not_visible": "Nothing was shown, which may also be a question of permission: never taken for absence.",
        "unavailable": "The source did not answer: down, 5xx, timeout. Never taken for absence.",
    },
    "ObservationStatus": {
        "success": "The tool says that it is done. A claim.",
        "accepted": "It took the request in, and has not done it (202, `queued`).",
        "pending": "It is at work (`processing`).",
        "partial": "Some parts were done and others not (207, mixed results).",
        "error": "It says that it failed: `success: false`, an error field, 4xx, 5xx, an exception, a redirect.",
        "timeout": "No answer in time, 408 or 504: the effect is open.",
        "cancelled": "The call was cancelled after it began: the effect is open.",
        "malformed": "No structured statement: nothing is concluded from its words.",
        "none": "No answer is on record: the process died, or the attempt was cut off.",
        "not_dispatched": "Provably nothing left this process: the only answer after which nothing is read back.",
    },
    "Verdict": {
        "verified": "Every postcondition holds, over a reading that may be believed.",
        "refuted": "A postcondition is violated for good: a terminal failure, or a strong reading after the window.",
        "undetermined": "It cannot be told; `why` says why. Neither success nor failure.",
        "not_checked": "Nothing was verified, since nothing was executed. Never passed.",
    },
    "Attribution": {
        "ours": "Shown to be this attempt's doing: its stamp, the source's own word, or the record under its key.",
        "other_actor": "The last writer left another stamp or name.",
        "already_so": "It was so before, and nothing has changed.",
        "unknown": "The state is as it is, and nothing shows who made it so.",
    },
    "Level": {
        "0": "Raw: what the tool said, as text.",
        "1": "Normalised: what the tool said, in our vocabulary.",
        "2": "Read back: a system of record was read.",
        "3": "Reconciled: every postcondition was held against it.",
        "4": "Audit-confirmed: covered by a signed checkpoint. Nothing in this release reaches it.",
    },
    "Finding": {
        "verified": "Every postcondition holds.",
        "no_op_allowed": "It was so already, and the contract permits that.",
        "propagation_delay": "Everything holds, and has still to prove that it stays so and stays single.",
        "failed_before_effect": "The failure provably precedes dispatch: there is nothing to verify.",
        "refuted_dead": "A strong, complete reading shows no effect, and nothing of the attempt may still land.",
        "no_op_failure": "A change was required, and nothing changed.",
        "target_missing": "There is no such target.",
        "stale_state": "Another actor has changed the target.",
        "authority_mismatch": "The tool's claim is not what a reading shows, and nothing is final yet.",
        "value_mismatch": "The target changed, and not as required.",
        "drift": "It was verified, and a later reading shows that it no longer holds.",
        "partial_success": "Some effect groups hold and others do not.",
        "provider_outage": "The system of record could not be read.",
        "pending_timeout": "The call gave no answer, and the record under its key says that it is still at work.",
        "verification_timeout": "The deadline passed and nothing settled it.",
        "unverifiable": "No system of record can confirm it.",
        "unknown": "The evidence allows no conclusion: readings disagree, or nothing shows whose doing it is.",
        "verifier_error": "A reader or a postcondition broke, or read outside the scope.",
        "policy_version_mismatch": "The policy changed meanwhile. Nothing in this release finds it.",
        "approval_mismatch": "Nobody approved it, or not this.",
        "compensation_required": "A committed effect has to be reversed: the caller cancelled it.",
        "hidden_side_effect": "Something outside the frame changed with it.",
        "duplicate_side_effect": "Several effects bear the stamp of this one operation.",
        "compensation_failed": "The reversal failed, was refused or is held.",
        "wrong_target": "An effect of ours is where it must not be.",
    },
    "KeyStatus": {
        "PENDING": "In flight, unknown, or waiting for a person. Blocks every second execution; never expires.",
        "COMPLETED": "Reconciled as success: a verdict, never a mere return.",
        "FAILED_RETRYABLE": "No effect, and none can follow: the same operation may be run again.",
        "FAILED_FINAL": "Failed for good; the same operation answers with that.",
        "COMPENSATED": "Its effect was reversed; a new intention needs a new operation.",
        "EXPIRED": "A settled record that is older than it is kept for: the operation is new again.",
    },
    "SagaOutcome": {
        "steps": "Each step by name, in the order in which they were given.",
        "name": "The saga's name.",
        "heading": "Which way it goes: onward, backward or forward.",
        "because": "The step for which it turned, or on which it waits.",
        "quiet": "It waits for a person, an approval, or for what stays unknown.",
    },
    "StepOutcome": {
        "name": "The step's name.",
        "word": "What may be said of it: completed, left, reversed, reversing, not_reversed, failed, unknown, review, "
        "held, pending or not_begun.",
        "outcome": "The outcome of its action; None where it was not begun.",
        "compensation": "The outcome of its reversal; None where there is none.",
        "state": "The state of its action; None where it was not begun.",
        "contract": "The contract's name.",
        "region": "Where it stands to the pivot: before, pivot or after.",
        "after": "The steps that it comes after.",
        "tries": "How often it was begun under its one key.",
        "code": "Why it could not even be proposed.",
        "detail": "The same in one line.",
        "as_json()": "Its part of the saga's outcome as plain data.",
    },
    "Outcome": {
        "id": "The action's id in the ledger.",
        "verified": "True only when reconciled as success.",
        "state": "Where the action stands.",
        "verdict": "What the readings amount to.",
        "why": "Why the verdict is undetermined; empty where it is not.",
        "discrepancy": "How the state differs from what was intended, or None.",
        "attribution": "Whose doing the state is.",
        "level": "The trust level.",
        "message": "The only words a user may be told.",
        "for_model()": "The only text that goes into the model's next context. It says whether repeating is allowed.",
        "may_repeat": "Whether the operation may be proposed again: its key was released, for a recorded reason.",
        "replayed": "This is the recorded outcome of an earlier run of the same operation.",
        "standing": "The success that was told stands: verified, contradicted by nothing later, and not taken back.",
        "value": "The authoritative state of an outcome that is verified and stands; else NotVerifiedError.",
        "exception": "What the tool raised during this call, with its traceback; None of a replay and after a restart.",
        "settled": "Nothing more is going to happen soon: it has ended, or stays unknown.",
        "contested": "What was told of it is contradicted, by a later reading or by a person.",
        "claims": "What is claimed of it, and how each claim stands; see [claims](#claims).",
        "claimed_us": "When it was verified first, which is what makes its claims; 0 where it never was.",
        "said": "What was said last of each of its claims; nothing for one that merely stands.",
        "fallen": "Ids of claims that it was planned upon, or those in turn were, and that stand no more.",
        "attempted": "Whether anything may have been sent: false only where provably nothing was.",
        "model_status": "What the state amounts to in the model's words: the head of `for_model()`.",
        "repeat_allowed": "Whether the model may be told that it may ask again: doubt outweighs `may_repeat`.",
        "cite()": "A citation of what it was verified by, for a [final report](reports.md).",
        "raise_unless_verified()": "Itself, where it stands as verified; else NotVerifiedError, which carries it.",
        "exit_code": "The command line's exit code for it.",
        "tool_words": "What the tool said, as its words, where the action is settled and not verified.",
        "as_json()": "The outcome as plain data.",
        "contract": "The contract's name.",
        "contract_version": "The contract's version.",
        "kind": "The kind of operation.",
        "target": "What was aimed at.",
        "operation": "The operation's id; drawn fresh where none was given.",
        "tenant": "Whose data it is.",
        "principal": "Who acted.",
        "stamp": "The mark inside the artefact.",
        "ledger_entry": "The hash of the action's last entry.",
        "trace": "The caller's trace id.",
        "authoritative": "What the system of record said last, as JSON; None where it showed nothing.",
        "before": "What it said before execution.",
        "observation": "What the tool answered: evidence, never truth.",
        "postconditions": "Each postcondition as it was judged, with the values it looked at.",
        "parts_done": "Effect groups that hold, of a partial outcome.",
        "parts_open": "Effect groups that do not.",
        "row": "The recovery table's row that decided.",
        "recovery": "That row's action.",
        "code": "Why it was not executed, or not gone on with; see [errors](#errors).",
        "detail": "The same in one line, or what was found.",
        "hold": "Why a validated action waits.",
        "review": "What calls for a person; empty where nothing does.",
        "incident": "What is to be alarmed about.",
        "compensation": "The id of the action that reverses it.",
        "resolution": "What a person attested of it, if anything. Never a verification.",
        "approval": "The id of the approval that it waits for, or stood on.",
        "approved_by": "Who has approved it.",
        "attempts": "How often the tool was, or may have been, called.",
        "due_us": "When it is looked at next, in microseconds since the epoch.",
        "erased": "Whether its payloads were erased: what was asked for, answered and read is None then.",
        "erased_us": "When they were erased last, in microseconds since the epoch; 0 where they were not.",
        "told": "The fields under `tell`.",
        "proves": "What the readings of a send prove.",
        "wording()": "`message`, `for_model()` and `repeat_allowed` at once: for who needs them all.",
    },
    "Claim": {
        "id": "The action's id, and `:happened` or `:holds`.",
        "action_id": "Of which action.",
        "kind": "happened: at its time it was done. holds: what it left is still so; that falls with the other one.",
        "status": "none, standing, contested, retracted or reinstated.",
        "standing": "Whether it may be relied on: standing or reinstated.",
        "made_us": "When it was verified first, in microseconds since the epoch; 0 where it never was.",
        "said": "What was said of it last: why, how surely, what is recommended, by whom, and who was planned upon it.",
        "grounds": "The entries that it stands on, by number and leaf hash.",
        "version": "The version of its action that was looked at.",
        "as_json()": "The claim as plain data.",
    },
    "Context": {
        "action_id": "The action's id.",
        "tenant": "Whose data it is.",
        "principal": "Who acts.",
        "operation": "The operation's id.",
        "target": "What is aimed at.",
        "idempotency_key": "Stops a second execution, where the tool honours it. The same for every attempt.",
        "stamp": "Travels inside the artefact and is found there by another path. The same for every attempt.",
        "attempt": "Which attempt it is, from 1.",
        "strong": "The reader is asked to bypass caches and replicas.",
        "observed": "What the tool answered: a hint, such as a provider's id; None before there is an answer.",
        "run": "The caller's run id.",
        "trace": "The caller's trace id.",
        "before": "What the reading before execution showed; None before it, and where there was no such object.",
        "reverses": "In a compensation: the stamp of the action whose effect is to be reversed; else empty.",
    },
    "Situation": {
        "side_effect": "The class of the contract.",
        "within_window": "The window is open and no verdict is final: the next reading may say otherwise.",
        "maybe_stale": "The deciding reading was weaker than strong, and a stronger one can be taken.",
        "reversible": "How the effect could be taken back: a local boundary, a compensation, or not at all.",
        "pivot_passed": "The point of no return is behind. Never so in this release, which has no workflows.",
        "effect_shown": "A reading shows an effect of ours.",
        "executed": "An attempt may have reached the tool.",
        "key_record": "What became of the attempt can be looked up under its key (`.lookup`).",
        "in_progress": "The answer was accepted or pending, or the state is one that the contract calls intermediate.",
        "resend_due": "The request was lost, nothing of it is seen, and its honoured key may be sent again now.",
        "key_honoured": "The contract says that the tool executes one key once, and attempts are left.",
        "dead": "Nothing of the attempt may still land.",
        "equivalent_duplicate": "The duplicate leaves an equivalent state. No contract can say so in this release.",
        "repeated": "The counter of consecutive faults of this contract or source is at its limit.",
        "late_open": "An effect may still land late.",
        "searched": "A search or look-up covered the places where the effect could be instead, or the tool said no.",
    },
}

ROOT_MEANINGS: Final[dict[str, str]] = {
    "intended": "The goal, where it is more than the request; else the request.",
    "requested": "The bound arguments.",
    "observed": "What the tool answered: a hint, never truth.",
    "before": "What the reading before execution showed; null where there was none, or no such object.",
    "authoritative": "What the reading under judgement shows; null where there is no such object.",
    "scope": "`tenant`, `principal`, `operation`, `stamp`, `idempotency_key`, `target`, `run`, `attempt`, "
    "`attempted_s` (when the attempt was made, in seconds since 1970), `budget`.",
}

OPERATORS: Final[dict[str, str]] = {
    "a ? b : c": "`b` where `a` is true, `c` where it is false; the other is not evaluated",
    "a || b": "either",
    "a && b": "both",
    "a == b, a != b, a < b, a <= b, a > b, a >= b": (
        "equality and order of two values of one kind; texts in the order of Unicode"
    ),
    "a in b": "whether a list has a value that is equal, or an object the key",
    "a + b, a - b": "of numbers, timestamps and durations; `+` also joins two texts, two lists, or bytes",
    "a * b, a / b, a % b": "of numbers; `%` of whole ones, with the sign of the first",
    "!a, -a": "the opposite of a truth value, or of a number",
    "a.name, a['name'], a[0]": "a field, or a place in a list, from 0; undetermined where there is none",
    "has(a.name)": "whether an object has the field",
    "list.all(x, p), list.exists(x, p), list.exists_one(x, p)": (
        "whether `p` holds of each value, of one at least, of exactly one; over the keys of an object as well"
    ),
    "list.filter(x, p), list.map(x, e), list.map(x, p, e)": "the values of which `p` holds; what `e` gives for each",
}

ACCESSORS_MEANING: Final = (
    "that part of a timestamp in UTC, or at an offset such as `t.getHours('+02:00')`; months, days of a month, of the "
    "week (Sunday) and of the year count from 0, `getDate` from 1; of a duration the hours, minutes, seconds, or the "
    "milliseconds"
)

LIMITS: Final[dict[str, str]] = {
    "audit.feedback.findings.DRIFTED_PERMILLE_MAX": "Successes that no longer held at a later look, of a thousand.",
    "domain.grounding.report.REPORT_MAX_BYTES": "A final report that is checked.",
    "domain.grounding.report.CITATIONS_MAX": "Citations in one final report.",
    "domain.grounding.report.SHOWN_MAX_CHARACTERS": "What is shown of a place with a fault.",
    "domain.contract.watch.LOOKS_MAX": "Looks that a contract may ask for after a success.",
    "domain.contract.watch.TRIES_MAX": "Looks that are made, those that could not tell among them.",
    "domain.contract.watch.CHANGES_MAX": "How often a watched state may fall before its watch ends.",
    "domain.contract.watch.RETRY_FIRST_US": "When a later look that could not tell is made again, at first.",
    "domain.saga.planner.HELD_FIRST_US": "When a saga that is held looks again, at first.",
    "domain.saga.planner.HELD_MAX_US": "The same, at most.",
    "domain.saga.planner.REVIEW_FIRST_US": "When a saga that waits for a person looks again, at first.",
    "domain.saga.planner.REVIEW_MAX_US": "The same, at most.",
    "domain.saga.planner.FORWARD_FIRST_US": "How long a step after the pivot waits for its second try.",
    "domain.saga.planner.FORWARD_MAX_US": "The same between two tries, at most.",
    "canon.limits.KEY_MAX_BYTES": "One key of an object.",
    "canon.limits.STRING_MAX_BYTES": "One text.",
    "canon.limits.EXPRESSION_MAX_BYTES": "One expression.",
    "canon.limits.EXPRESSION_DEPTH_MAX_LEVELS": "Nesting of brackets in an expression.",
    "canon.limits.EXPRESSION_NESTED_LOOPS_MAX": "`all`, `exists`, `map`, `filter` within each other.",
    "canon.limits.EXPRESSION_ADDITIONS_MAX": "Plus signs in an expression.",
    "canon.limits.EXPRESSION_EDITS_MAX": "Replacements in one call of `edited`.",
    "canon.limits.EXPRESSION_PATTERN_MAX_CHARS": "A pattern of `matches`.",
    "domain.contract.contract.ATTEMPTS_MAX": "Attempts of one action, all under one key.",
    "domain.contract.contract.POLLS_MAX": "Readings of one attempt until only the close and the deadline are left.",
    "domain.contract.contract.LATE_POLLS_MAX": "Readings for a late effect where no late window is known.",
    "domain.outcome.reporting.TOLD_FIELDS_MAX": "Fields of `tell` in a text for the model.",
    "domain.outcome.reporting.TOLD_VALUE_MAX_CHARACTERS": "One told value.",
    "domain.outcome.reporting.POINTER_MAX_CHARACTERS": "One pointer in a text for the model.",
    "domain.outcome.reporting.PARTS_MAX": "Parts that are named of a partial outcome.",
    "domain.contract.approval.BOUND_MAX_BYTES": "What an approver is shown, and signs.",
    "domain.contract.approval.TOKEN_MAX_BYTES": "One signed token.",
    "domain.contract.approval.PEOPLE_MAX": "People who have to approve one action.",
    "domain.contract.approval.APPROVERS_MAX": "Approvers in the settings.",
    "domain.contract.approval.PATTERNS_MAX": "Tenants, or contracts, that one approver is listed for.",
    "domain.contract.approval.NAME_MAX_CHARACTERS": "An approver's name.",
    "domain.belief.text.NAME_MAX_CHARACTERS": "A target, an operation or a run's name in the text of a run.",
    "domain.belief.text.REASON_MAX_CHARACTERS": "The reason of a freeze in the text of a run.",
    "domain.belief.text.PERSON_LINES_MAX": "Settled results in the text of a run for a person; the newest ones.",
    "audit.feedback.findings.UNDETERMINED_PERMILLE_MAX": "Actions without a verdict, per thousand that ended.",
    "audit.feedback.findings.CLAIMED_REFUTED_PERMILLE_MAX": "Refuted claims of a tool, per thousand.",
    "audit.feedback.findings.ACKNOWLEDGED_REFUTED_PERMILLE_MAX": "What a tool accepted and was refuted, per thousand.",
    "audit.feedback.findings.LOST_PERMILLE_MAX": "Calls without an answer, per thousand.",
    "audit.feedback.findings.SOURCE_FAULTS_PERMILLE_MAX": "Readings that failed, per thousand of a source.",
    "audit.feedback.findings.OUTAGE_PERMILLE_MAX": "Actions refused since their source was down, per thousand.",
    "audit.feedback.findings.DISCREPANCY_PERMILLE_MAX": "Actions that differ from what was intended, per thousand.",
    "audit.feedback.findings.VERDICT_MAX_US": "First look to verdict, of all but one in twenty.",
    "audit.feedback.findings.COMPENSATION_FAILED_MAX": "Failed compensations of a contract.",
    "audit.feedback.findings.WITHHELD_MAX": "Readings by a source of another tenant's or target's record.",
    "contracts.options.NAME_MAX_CHARS": "Names and versions of contracts.",
    "contracts.options.ENTRIES_MAX": "Entries of one key of a contract.",
    "contracts.options.REASON_MAX_CHARS": "The reason of `unverifiable`.",
    "contracts.options.DURATION_MAX_US": "Any duration in a contract.",
    "contracts.templates.TEMPLATE_MAX_CHARS": "A template.",
    "contracts.templates.RENDERED_MAX_CHARS": "What a template renders to.",
    "contracts.templates.RENDERED_MAX_BYTES": "The same in UTF-8.",
    "engine.schedule.LATE_POLL_FIRST_US": "First pause before looking for a late effect; doubled each time.",
    "engine.schedule.LATE_JITTER_MAX_US": "The most by which a look for a late effect comes after its moment.",
    "engine.schedule.LATE_POLL_MAX_US": "Longest pause between looks for a late effect.",
    "engine.schedule.LEASE_MARGIN_US": "What a lease lasts longer than the tool and a round of readings may take.",
    "engine.stages.verify.FOUND_MAX": "Effects that `.find` may bring; with more, nobody has looked at everything.",
    "engine.values.reader_results.ERROR_TEXT_MAX": "What is kept of a reader's error.",
    "engine.values.reader_results.FORMS_MAX": "Fields of a reading whose normal form its source states.",
    "systems.files.source.ENTRIES_MAX": "Entries of a folder whose manifest is read; with more, the reading fails.",
    "systems.files.source.LINES_MAX_BYTES": "A file that is read line by line; of a larger one the reading fails.",
    "systems.mail.source.HEADER_MAX_BYTES": "The part of a message's header that is read.",
    "systems.mail.executor.RECIPIENTS_MAX": "Recipients of one message.",
    "systems.mail.executor.REPLY_MAX_BYTES": "One reply of a mail server, all its lines.",
    "systems.mail.executor.REPLY_LINE_MAX_BYTES": "One line of a mail server's reply.",
}
