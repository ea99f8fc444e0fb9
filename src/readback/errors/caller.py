"""Errors where the caller is at fault, and only the rejection is recorded. Import them from `readback.errors`."""

from __future__ import annotations

from typing import Final

from readback.canon.fault import ReadbackError


class InputError(ReadbackError):
    """The request cannot be executed as given. No attempt was made; the same request gives the same error.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import InputError
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.approval("a-17")
        ...     except InputError as error:
        ...         print(error.code, error.exit_code)
        input.not-found 2
    """

    code = "input"
    exit_code = 2


class ArgumentError(InputError):
    """Arguments do not fit the action's parameters. `details["problems"]` lists every problem.

    Example:
        >>> from readback import verified
        >>> from readback.errors import ArgumentError
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> try:
        ...     ship(order="o-17")
        ... except ArgumentError as error:
        ...     print(error.code, [each["argument"] for each in error.details["problems"]])
        input.arguments ['order', 'order_id']
    """

    code = "input.arguments"
    remedy_default = "Correct the named arguments and propose the action again."


class OversizeError(InputError):
    """A value exceeds a size limit.

    Example:
        >>> from readback import verified
        >>> from readback.errors import OversizeError
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> try:
        ...     ship("x" * 2_000_000)
        ... except OversizeError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        input.oversize
        Pass a reference or a digest in place of the whole value.
    """

    code = "input.oversize"
    remedy_default = "Pass a reference or a digest in place of the whole value."


class ProposalError(InputError):
    """A proposal cannot be run: it was run already, belongs to another runtime, or lacks a required operation.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ProposalError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     proposal = switch()
        ...     outcome = rb.run(proposal)
        ...     try:
        ...         rb.run(proposal)
        ...     except ProposalError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        input.proposal
        Create a new proposal by calling the action again.
    """

    code = "input.proposal"
    remedy_default = "Create a new proposal and pass an operation id."


class UsageError(InputError):
    """The library or the command line was used in an invalid way, for example after being closed.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import UsageError
        >>> rb = Readback.open("memory:")
        >>> rb.close()
        >>> try:
        ...     rb.list()
        ... except UsageError as error:
        ...     print(error.code, error.message)
        input.usage This Readback is closed.
    """

    code = "input.usage"


class NotFoundError(InputError):
    """This tenant has no action, contract or item of that name.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import NotFoundError
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.get("a-17")
        ...     except NotFoundError as error:
        ...         print(error.code)
        ...         print(error.message)
        ...         print(error.remedy)
        input.not-found
        There is no action 'a-17' in tenant 'default'.
        Run `readback list` to see this tenant's ids.
    """

    code = "input.not-found"
    remedy_default = "Run `readback list` to see this tenant's ids."


class UnknownPrincipalError(InputError):
    """The contract does not allow this principal to act.

    Example:
        >>> from readback import Policy, Readback, Reading, action
        >>> from readback.errors import UnknownPrincipalError
        >>> @action("lamp", ensure="authoritative.on", policy=Policy(principals=["agent:house"]))
        ... def switch_on() -> None: ...
        >>> @switch_on.read(strong=True)
        ... def read_lamp() -> Reading: return Reading.of({"on": True})
        >>> with Readback.open("memory:", principal="agent:guest") as rb:
        ...     try:
        ...         rb.run(switch_on())
        ...     except UnknownPrincipalError as error:
        ...         print(error.code, error.details["allowed"])
        input.unknown-principal ['agent:house']
    """

    code = "input.unknown-principal"
    remedy_default = "Use a principal listed in the contract's `principals`."


class UnknownTenantError(InputError):
    """The tenant is missing, or the action belongs to another tenant.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import UnknownTenantError
        >>> try:
        ...     Readback.open("memory:", tenant="")
        ... except UnknownTenantError as error:
        ...     print(error.code)
        ...     print(error.message)
        ...     print(error.remedy)
        input.unknown-tenant
        The tenant is missing.
        Pass tenant='...' (--tenant in a shell), or set READBACK_TENANT.
    """

    code = "input.unknown-tenant"
    remedy_default = "Open Readback with the action's own tenant."


class PayloadConflictError(InputError):
    """The same operation was requested before with other arguments, or over HTTP with another goal. Nothing was run.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import PayloadConflictError
        >>> lamps = {"hall": False, "attic": False}
        >>> def switch_on(room: str) -> None: lamps[room] = True
        >>> switch = verified(switch_on, read=lambda room: {"on": lamps[room]}, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch("hall"), operation="evening light")
        ...     try:
        ...         rb.run(switch("attic"), operation="evening light")
        ...     except PayloadConflictError as error:
        ...         print(error.code, lamps["attic"])
        input.payload-conflict False
    """

    code = "input.payload-conflict"
    remedy_default = "Use a new operation id for a new intent, or repeat the first arguments."


class ReviewError(InputError):
    """A decision about a review or a freeze was rejected. Nothing was changed. Codes: review.stale, .resolved,
    .not-offered, .self, .signature, .key-taken.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ReviewError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        ...     try:
        ...         rb.resolve(outcome.id, "attest_done", expect_version=0, who="ana@example.com", reason="seen")
        ...     except ReviewError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        review.resolved
        Run `readback review show` to see the allowed decisions.
    """

    code = "review"
    remedy_default = "Run `readback review show` to see the allowed decisions."


class SagaError(InputError):
    """A saga cannot start. `details["problems"]` lists every fault. Nothing was done.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import SagaError
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.saga([])
        ...     except SagaError as error:
        ...         print(error.code, error.details["problems"][0]["reason"])
        input.saga The saga has no steps.
    """

    code = "input.saga"
    remedy_default = "Correct the named steps, then start the saga again."


class ApprovalError(InputError):
    """An approval or a denial does not count. Nothing was recorded or executed. The code gives the reason:
    approval.forged, .expired, .replayed, .mismatch, .policy-changed, .unknown-approver, .self; .key, .no-terminal.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ApprovalError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        ...     try:
        ...         rb.approve(outcome.id, "no token")
        ...     except ApprovalError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        approval.forged
        Run `readback approve ID` to see the current request and its approvers.
    """

    code = "approval"
    remedy_default = "Run `readback approve ID` to see the current request and its approvers."


class LimitError(InputError):
    """The tenant has reached a limit set by the operator. Nothing was done, and nothing was recorded.

    Example:
        >>> from readback import Readback, TenantLimits, verified
        >>> from readback.errors import LimitError
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True}, within="1h")
        >>> with Readback.open("memory:", limits=TenantLimits(in_flight=1)) as rb:
        ...     pending = rb.submit(switch(), operation="first")
        ...     try:
        ...         rb.submit(switch(), operation="second")
        ...     except LimitError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        limit.in-flight
        Wait until an action has ended, or ask the operator to raise the tenant's limit.
    """

    code = "limit"
    remedy_default = "Wait until an action has ended, or ask the operator to raise the tenant's limit."


class InFlightLimitError(LimitError):
    """The tenant has the maximum number of waiting actions.

    Example:
        >>> from readback import Readback, TenantLimits, verified
        >>> from readback.errors import InFlightLimitError
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True}, within="1h")
        >>> with Readback.open("memory:", limits=TenantLimits(in_flight=1)) as rb:
        ...     pending = rb.submit(switch(), operation="first")
        ...     try:
        ...         rb.submit(switch(), operation="second")
        ...     except InFlightLimitError as error:
        ...         print(error.code, error.message)
        limit.in-flight Tenant 'default' has 1 actions in flight, which is its limit.
    """

    code = "limit.in-flight"


class EvidenceLimitError(LimitError):
    """The tenant has the maximum amount of stored evidence.

    Example:
        >>> from readback import Readback, TenantLimits, verified
        >>> from readback.errors import EvidenceLimitError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:", limits=TenantLimits(evidence_bytes=1)) as rb:
        ...     outcome = rb.run(switch(), operation="first")
        ...     try:
        ...         rb.run(switch(), operation="second")
        ...     except EvidenceLimitError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        limit.evidence
        Ask the operator to raise the tenant's evidence limit.
    """

    code = "limit.evidence"
    remedy_default = "Ask the operator to raise the tenant's evidence limit."


class MissingScopeError(InputError):
    """The contract needs permission scopes that this client lacks.

    Example:
        >>> from readback import Policy, Readback, Reading, action
        >>> from readback.errors import MissingScopeError
        >>> @action("lamp", ensure="authoritative.on", policy=Policy(scopes=["lamp:write"]))
        ... def switch_on() -> None: ...
        >>> @switch_on.read(strong=True)
        ... def read_lamp() -> Reading: return Reading.of({"on": True})
        >>> with Readback.open("memory:", scopes=["lamp:read"]) as rb:
        ...     try:
        ...         rb.run(switch_on())
        ...     except MissingScopeError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        input.missing-scope
        Open Readback with the scopes listed in the contract's `scopes`.
    """

    code = "input.missing-scope"
    remedy_default = "Open Readback with the scopes listed in the contract's `scopes`."


class HeaderInjectionError(InputError):
    """The value of a header contains a line break or another control character.

    Example:
        >>> from readback import Context
        >>> from readback.errors import HeaderInjectionError
        >>> from readback.systems import HttpExecutor
        >>> ctx = Context("a", "acme", "agent", "op", "order/1", "key", "rb-a")
        >>> with HttpExecutor("http://127.0.0.1:9") as api:
        ...     try:
        ...         api.post(ctx, "/orders", headers={"X-Note": "paid" + chr(10) + "X-Admin: yes"})
        ...     except HeaderInjectionError as error:
        ...         print(error.code, error.message)
        input.header-injection The header 'X-Note' holds a control character.
    """

    code = "input.header-injection"
    remedy_default = "Remove control characters from header values."


class SandboxEscapeError(InputError):
    """A path leaves the folder that confines it.

    Example:
        >>> from readback import Context
        >>> from readback.errors import SandboxEscapeError
        >>> from readback.systems import FileExecutor
        >>> ctx = Context("a", "acme", "agent", "op", "file/1", "key", "rb-a")
        >>> try:
        ...     FileExecutor(".").write_text(ctx, "../outside.txt", "text")
        ... except SandboxEscapeError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        input.sandbox-escape
        Pass a path inside the sandbox, without links to the outside.
    """

    code = "input.sandbox-escape"
    remedy_default = "Pass a path inside the sandbox, without links to the outside."


class HonestyError(ReadbackError, TypeError):
    """`bool()` of an outcome or a proposal was requested: neither answer would be honest.

    Example:
        >>> from readback import verified
        >>> from readback.errors import HonestyError
        >>> def ship_order(order_id: str) -> None: ...
        >>> proposal = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})("o-17")
        >>> try:
        ...     bool(proposal)
        ... except HonestyError as error:
        ...     print(error.code, error.message)
        usage.honesty A proposal has no truth value: nothing has happened yet.
        >>> proposal.mark_run()
    """

    code = "usage.honesty"
    exit_code = 2
    remedy_default = "Read `outcome.verified` or `outcome.state`; a proposal does nothing before `run`."


class CitationError(InputError):
    """The citation cannot be made. Codes: citation.not-standing, .erased, .place, .saga.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import CitationError
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: {"on": False}, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        ...     try:
        ...         outcome.cite("on")
        ...     except CitationError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        citation.not-standing
        Cite verified, standing claims only. For everything else, use the outcome's message.
    """

    code = "citation"
    remedy_default = "Cite verified, standing claims only. For everything else, use the outcome's message."


NOT_STANDING: Final = "claim.not-standing"
"""The code of an action refused because a claim among its dependencies does not stand."""


class ClaimError(InputError):
    """A claim cannot be retracted or reinstated as requested. Nothing was changed. Codes: claim.not-offered, .self,
    .signature, .malformed.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ClaimError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:", principal="ana@example.com") as rb:
        ...     claim = rb.claims(rb.run(switch()).id)[0]
        ...     try:
        ...         rb.retract(claim.id, who="ana@example.com", reason="wrong room")
        ...     except ClaimError as error:
        ...         print(error.code, error.message.partition(" ran ")[0])
        claim.self 'ana@example.com'
    """

    code = "claim"
    remedy_default = "Run `readback claims list` and `readback claims check ID`."


class MalformedClaimError(ClaimError):
    """The text is no claim id. A claim id is an action's id followed by `:happened` or `:holds`.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import MalformedClaimError
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.claim("a-17:maybe")
        ...     except MalformedClaimError as error:
        ...         print(error.code)
        ...         print(error.message)
        ...         print(error.remedy)
        claim.malformed
        'a-17:maybe' is not a claim id.
        Pass the id of a claim, of an action, or an outcome.
    """

    code = "claim.malformed"
    remedy_default = "Pass the id of a claim, of an action, or an outcome."


class ErasureError(InputError):
    """The action still needs the data named for erasure. Nothing was erased.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ErasureError
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True}, within="1h")
        >>> with Readback.open("memory:") as rb:
        ...     action_id = rb.submit(switch(), operation="evening light")
        ...     try:
        ...         rb.erase(action_id, who="ana@example.com", reason="request 12")
        ...     except ErasureError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        erasure.at-work
        Let the action settle, cancel it, or decide its review. Then erase it.
    """

    code = "erasure.at-work"
    remedy_default = "Let the action settle, cancel it, or decide its review. Then erase it."


class OwnFileError(SandboxEscapeError):
    """An action would change a file of Readback's own: contract, settings, ledger, key, verifier or hook.

    Example:
        >>> from readback import Context, Readback
        >>> from readback.errors import OwnFileError
        >>> from readback.systems import FileExecutor
        >>> ctx = Context("a", "acme", "agent", "op", "file/1", "key", "rb-a")
        >>> with Readback.open("sqlite:///orders.db"):
        ...     try:
        ...         FileExecutor(".").write_text(ctx, "orders.db", "overwritten")
        ...     except OwnFileError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        input.own-file
        Give the executor a separate folder without contracts, settings, ledger or keys.
    """

    code = "input.own-file"
    remedy_default = "Give the executor a separate folder without contracts, settings, ledger or keys."


class BundleError(InputError):
    """The file is no replay bundle, or a part of the bundle has a wrong hash. Nothing was replayed.

    Example:
        >>> from readback.audit.record.bundle import open_bundle
        >>> from readback.errors import BundleError
        >>> try:
        ...     open_bundle(b"{}")
        ... except BundleError as error:
        ...     print(error.code)
        ...     print(error.message)
        ...     print(error.remedy)
        bundle
        The file is no replay bundle of the form readback/replay-bundle/1.
        Export the bundle again with `readback ledger export --bundle`; do not edit the file.
    """

    code = "bundle"
    remedy_default = "Export the bundle again with `readback ledger export --bundle`; do not edit the file."


class TableMissingError(InputError):
    """A recovery table used by a recorded decision is neither the default table nor a named one.

    Nothing was written.

    Example:
        >>> from readback.audit.record.bundle import make_bundle
        >>> from readback.errors import TableMissingError
        >>> def export(stored, load, tables) -> bytes | str:
        ...     try:
        ...         return make_bundle(stored, load, tables)
        ...     except TableMissingError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(TableMissingError.code)
        bundle.table
        >>> print(TableMissingError.remedy_default)
        Name the table's file with --table; the hash of the rows identifies the table.
    """

    code = "bundle.table"
    remedy_default = "Name the table's file with --table; the hash of the rows identifies the table."


class SubmissionError(InputError):
    """This action may not be left to another process. Nothing was submitted, or the submission is not executed.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import SubmissionError
        >>> def switch_on() -> None: ...
        >>> switch = verified(switch_on, read=lambda: None, strong=True, expect={"on": True})
        >>> with Readback.open("memory:", break_glass="power cut in ward 3") as rb:
        ...     try:
        ...         rb.submit(switch(), operation="emergency light")
        ...     except SubmissionError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        input.submission
        Run it here, or submit it without break_glass and have it approved.
    """

    code = "input.submission"
    remedy_default = "Run the action with `run` in the process that has its contract."
