"""The types of requests and answers, as JSON. `openapi` describes the API by these types.

Answers hold every field of the type, and may hold more. Arguments keep their exact numbers: they stay raw bytes until
the contract checks them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from readback.canon.limits import ID_MAX_BYTES

PAGE_MAX: Final = 200
PAGE_DEFAULT: Final = 50
TEXT_MAX: Final = 16_384
REASON_MAX: Final = 1_024
"""Characters of a person's reason; within the engine's limit of 4,096 bytes in any script."""
UPON_MAX: Final = 256
STEPS_MAX: Final = 64

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_MAX_BYTES)]
Name = Annotated[str, msgspec.Meta(max_length=ID_MAX_BYTES)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX)]
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_MAX)]
Base64 = Annotated[str, msgspec.Meta(max_length=TEXT_MAX, description="Base64 of RFC 4648, section 4.")]
RawJson = Annotated[msgspec.Raw, msgspec.Meta(description="Any JSON value; numbers stay exact.")]
RawObject = Annotated[
    msgspec.Raw, msgspec.Meta(description="A JSON object; numbers stay exact.", extra_json_schema={"type": "object"})
]


def no_arguments() -> msgspec.Raw:
    """Return an empty object as raw JSON."""
    return msgspec.Raw(b"{}")


def no_value() -> msgspec.Raw:
    """Return a null as raw JSON."""
    return msgspec.Raw(b"null")


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A request with exactly these fields."""


class TestQuery(Strict, frozen=True, kw_only=True):
    """Whether the request concerns the ledger of tests."""

    test: bool = False


class ActionRequest(Strict, frozen=True, kw_only=True):
    """An action to run.

    `intended`: the goal as an object, where the goal exceeds the request. `upon`: claims or actions that must stand.
    `test`: run against the contract's sandbox, in the ledger of tests.
    """

    contract: Id
    arguments: RawObject = msgspec.field(default_factory=no_arguments)
    intended: RawJson = msgspec.field(default_factory=no_value)
    step: Text = ""
    run: Name = ""
    upon: Annotated[list[Id], msgspec.Meta(max_length=UPON_MAX)] = msgspec.field(default_factory=list)
    test: bool = False


class AttemptRequest(Strict, frozen=True, kw_only=True):
    """A call that the caller makes, after this request made the attempt durable."""

    contract: Id
    arguments: RawObject = msgspec.field(default_factory=no_arguments)
    step: Text = ""
    run: Name = ""
    test: bool = False


class AttemptReport(Strict, frozen=True, kw_only=True):
    """How the caller's call ended: `value` after a return, `error` after a failure."""

    value: RawJson = msgspec.field(default_factory=no_value)
    error: Text | None = None
    test: bool = False


class SagaStepRequest(Strict, frozen=True, kw_only=True):
    """One step. An argument `{"$from": {"step": NAME, "path": PATH}}` stands for a value of an earlier step."""

    name: Id
    contract: Id
    arguments: RawObject = msgspec.field(default_factory=no_arguments)
    intended: RawJson = msgspec.field(default_factory=no_value)
    after: list[Id] = msgspec.field(default_factory=list)
    pivot: bool = False


class SagaRequest(Strict, frozen=True, kw_only=True):
    """Several actions as one: all are verified, or every effect is reversed, or a person decides."""

    steps: Annotated[list[SagaStepRequest], msgspec.Meta(min_length=1, max_length=STEPS_MAX)]
    name: Id = "saga"
    run: Name = ""
    test: bool = False


class CancelRequest(Strict, frozen=True, kw_only=True):
    """A stop. `unattempted`: stop the action only where nothing was sent."""

    unattempted: bool = False
    reason: Text = ""
    test: bool = False


class TestRequest(Strict, frozen=True, kw_only=True):
    """A request without parameters of its own."""

    test: bool = False


class DecisionRequest(Strict, frozen=True, kw_only=True):
    """A decision about a review. `signature`: the approver's signature of the statement, for a critical mutation."""

    decision: Literal["attest_done", "attest_not_done", "verify_again", "compensate", "go_forward", "abandon", "reopen"]
    reason: Reason
    signature: Base64 = ""
    test: bool = False


class TokenRequest(Strict, frozen=True, kw_only=True):
    """A signed approval or denial. `token`: the text that `readback keys sign` prints."""

    decision: Literal["approve", "deny"]
    token: Annotated[str, msgspec.Meta(min_length=2, max_length=TEXT_MAX)]
    test: bool = False


class StatementRequest(Strict, frozen=True, kw_only=True):
    """A person's statement about a claim."""

    reason: Reason
    signature: Base64 = ""
    test: bool = False


class LiftRequest(Strict, frozen=True, kw_only=True):
    """The end of a freeze."""

    subject: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
    reason: Reason
    signature: Base64 = ""
    test: bool = False


class ReportRequest(Strict, frozen=True, kw_only=True):
    """An agent's final report. `every`: every item outside `## Open` must cite."""

    text: Annotated[str, msgspec.Meta(max_length=262_144)]
    every: bool = False
    test: bool = False


class CheckRequest(Strict, frozen=True, kw_only=True):
    """Arguments for a contract, to be checked without a call and without a record."""

    arguments: RawObject = msgspec.field(default_factory=no_arguments)
    operation: Name = ""
    run: Name = ""
    test: bool = False


class ResendRequest(Strict, frozen=True, kw_only=True):
    """Dead letters to deliver once more: by id, or all; of one subscriber, or of every subscriber."""

    ids: Annotated[list[Id], msgspec.Meta(max_length=1_000)] = msgspec.field(default_factory=list)
    all: bool = False
    subscriber: Name = ""
    preview: bool = False


class Links(msgspec.Struct, frozen=True):
    """The addresses of an action's parts."""

    self: str
    events: str
    proof: str
    bundle: str
    explain: str


class ClaimView(msgspec.Struct, frozen=True):
    """A claim of an action, and whether consumers may rely on the claim now."""

    id: str
    action: str
    kind: str
    status: str
    standing: bool
    made_us: int
    version: int
    reason: str
    at_us: int
    who: str
    note: str


class PostconditionView(msgspec.Struct, frozen=True):
    """A postcondition with its truth and the values behind the truth."""

    name: str
    group: str | None
    truth: str
    source: str
    reason: str
    values: list[Any]


class ActionView(msgspec.Struct, frozen=True):
    """An action's outcome. `final`: the state is known, and no work is left.

    `message` is the only text for users, and `for_model` the only text for a model's next context. `observation` is
    evidence of the tool's answer, and no fact.
    """

    id: str
    version: int
    state: str
    final: bool
    settled: bool
    verified: bool
    standing: bool
    verdict: str
    why: str
    discrepancy: str | None
    attribution: str
    level: int
    may_repeat: bool
    repeat_allowed: bool
    in_doubt: bool
    replayed: bool
    message: str
    for_model: str
    contract: str
    contract_version: str
    target: str
    operation: str
    tenant: str
    principal: str
    stamp: str
    row: str
    recovery: str
    code: str
    detail: str
    hold: str
    review: str
    incident: str
    compensation: str
    approval: str
    approved_by: list[str]
    resolution: str
    contested: bool
    claims: list[ClaimView]
    fallen: list[str]
    attempts: int
    due_us: int | None
    parts_done: list[str]
    parts_open: list[str]
    observation: Any
    before: Any
    authoritative: Any
    postconditions: list[PostconditionView]
    ledger_entry: str
    trace: str
    erased_us: int
    test: bool
    links: Links


class AttemptView(msgspec.Struct, frozen=True):
    """A begun attempt. `allowed`: the attempt is durable, and the caller makes the call now, once."""

    allowed: bool
    action: ActionView


class ActionSummary(msgspec.Struct, frozen=True):
    """One row of a list: the ledger's summary of an action or a saga."""

    id: str
    version: int
    kind: str
    state: str
    hold: str
    verdict: str
    discrepancy: str
    review: str
    incident: str
    claim: str
    contract: str
    side_effect: str
    target: str
    operation: str
    principal: str
    run: str
    saga: str
    stamp: str
    created_us: int
    updated_us: int
    due_us: int | None


class ActionPage(msgspec.Struct, frozen=True):
    """A page, the newest first. `starting_after` of the next page is the last item's id."""

    items: list[ActionSummary]
    has_more: bool


class ActionQuery(TestQuery, frozen=True, kw_only=True):
    """Filters of a list; an empty filter matches everything."""

    state: Name = ""
    contract: Name = ""
    run: Name = ""
    saga: Name = ""
    kind: Literal["", "saga"] = ""
    operation: Name = ""
    open: bool = False
    review: bool = False
    starting_after: Name = ""
    limit: Limit = PAGE_DEFAULT


class PageQuery(TestQuery, frozen=True, kw_only=True):
    """A page of a list."""

    starting_after: Name = ""
    limit: Limit = PAGE_DEFAULT


class EventView(msgspec.Struct, frozen=True):
    """A ledger entry of an action. `position`: the place in the whole log; null until the log assigns one."""

    position: int | None
    version: int
    kind: str
    at_us: int
    path: list[str]
    data: dict[str, Any]
    refs: dict[str, Any]
    leaf: str


class EventList(msgspec.Struct, frozen=True):
    """All entries of an action, the oldest first."""

    items: list[EventView]


class ExplainView(msgspec.Struct, frozen=True):
    """Why the outcome is as it is, and what to do now. Every sentence comes from a table or names a recorded value."""

    id: str
    state: str
    verdict: str
    row: str
    may_repeat: bool
    message: str
    why: list[str]
    now: list[str]
    commands: list[str]


class SignalView(msgspec.Struct, frozen=True):
    """Whether a waiting action's next reading was brought forward."""

    woken: bool


class ReviewView(msgspec.Struct, frozen=True):
    """The case of an action in review: the facts, and what each decision will do."""

    id: str
    version: int
    state: str
    review: str
    choices: list[dict[str, Any]]


class StatementView(msgspec.Struct, frozen=True):
    """The exact bytes that an approver signs."""

    statement: str
    signer: str


class StatementQuery(TestQuery, frozen=True, kw_only=True):
    """The decision to be signed, its reason, and the version seen."""

    decision: Name
    reason: Reason
    version: Annotated[int, msgspec.Meta(ge=1)]


class ApprovalView(msgspec.Struct, frozen=True):
    """What an approver signs: the exact bytes, their hash, and the names that signed already."""

    id: str
    approval: str
    bytes: str
    payload: str
    expires_us: int
    people: int
    signed_by: list[str]
    current: bool
    request: Any


class ClaimPage(msgspec.Struct, frozen=True):
    """Claims: of one action, or every contested, retracted or reinstated claim of the newest actions."""

    items: list[ClaimView]


class ClaimQuery(TestQuery, frozen=True, kw_only=True):
    """An action's claims; without an action, claims that changed."""

    action: Name = ""
    limit: Limit = PAGE_DEFAULT


class IncidentView(msgspec.Struct, frozen=True):
    """An incident that needs a person's attention."""

    id: str
    severity: str
    cause: str
    action: str
    seen: int
    open: bool
    opened_us: int
    closed_us: int


class IncidentList(msgspec.Struct, frozen=True):
    """Incidents, the newest first."""

    items: list[IncidentView]


class IncidentQuery(TestQuery, frozen=True, kw_only=True):
    """`all`: include closed incidents."""

    all: bool = False


class FreezeView(msgspec.Struct, frozen=True):
    """A frozen subject. No new action may act on the subject."""

    subject: str
    action: str
    reason: str
    since_us: int


class FreezeList(msgspec.Struct, frozen=True):
    """Frozen subjects, the oldest first."""

    items: list[FreezeView]


class BeliefView(msgspec.Struct, frozen=True):
    """What a model may believe about a run. `for_model` is the text for the model's next context."""

    run: str
    message: str
    for_model: str
    verified: list[dict[str, Any]]
    unresolved: list[dict[str, Any]]
    not_done: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    frozen: list[dict[str, Any]]


class ReportView(msgspec.Struct, frozen=True):
    """Whether a report's statements rest on the ledger. `safe`: the report itself, or a text that may be shown."""

    passed: bool
    faults: list[dict[str, Any]]
    safe: str


class ContractSummary(msgspec.Struct, frozen=True):
    """A loaded contract."""

    name: str
    version: str
    hash: str
    kind: str
    side_effect: str
    sandbox: bool
    approval: bool
    reverses: bool


class ContractList(msgspec.Struct, frozen=True):
    """The contracts of this server, by name."""

    items: list[ContractSummary]


class ContractView(ContractSummary, frozen=True):
    """A contract with the JSON Schema of its arguments and its text."""

    arguments: dict[str, Any]
    contract: dict[str, Any]


class CheckView(msgspec.Struct, frozen=True):
    """Arguments fit the contract. `needs_approval`: the action would wait for an approver before any call."""

    fits: bool
    needs_approval: bool
    requested: Any


class SubscriberView(msgspec.Struct, frozen=True):
    """A receiver of messages, and how far the receiver's messages are delivered."""

    name: str
    where: str
    position: int | None
    waiting: int | None
    dead_letters: int


class SubscriberList(msgspec.Struct, frozen=True):
    """Subscribers, by name."""

    items: list[SubscriberView]


class DeadLetterView(msgspec.Struct, frozen=True):
    """An undelivered message, and why its delivery ended."""

    id: str
    subscriber: str
    event: str
    action: str
    reason: str
    tries: int
    at_us: int


class DeadLetterList(msgspec.Struct, frozen=True):
    """Dead letters of the tenant, in the order of the log."""

    items: list[DeadLetterView]


class DeadLetterQuery(Strict, frozen=True, kw_only=True):
    """`subscriber`: only this subscriber's messages."""

    subscriber: Name = ""


class ResendView(msgspec.Struct, frozen=True):
    """How many dead letters were chosen, accepted, and are still undelivered."""

    chosen: int
    accepted: int
    left: int


class StreamQuery(Strict, frozen=True, kw_only=True):
    """`action`: only this action's entries. `after`: the position to begin after; a Last-Event-ID wins."""

    action: Name = ""
    after: Annotated[int, msgspec.Meta(ge=0)] | None = None


class StreamEvent(msgspec.Struct, frozen=True):
    """The data of one event of the stream. The event's `id` is the ledger position."""

    position: int
    id: str
    version: int
    kind: str
    state: str
    at_us: int


class Problem(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457) with Readback's stable code."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str = ""
    instance: str = ""
    faults: list[Any] = msgspec.field(default_factory=list)
