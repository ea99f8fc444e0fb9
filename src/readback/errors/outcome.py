"""Errors where a tool, a reader or a drill ends without the expected result. Import them from `readback.errors`."""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon.fault import ReadbackError


class VerifierError(ReadbackError):
    """Verification itself failed. The truth is undetermined: neither success nor failure may be reported.

    Example:
        >>> from readback import Readback, verified
        >>> lamp = {}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> def read_lamp() -> dict[str, bool]: return {"on": 1 / 0} if lamp else {"on": False}
        >>> switch = verified(switch_on, read=read_lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.state.value, outcome.verdict.value, outcome.why.value)
        unknown undetermined verifier_error
        >>> print(outcome.detail)
        ZeroDivisionError: division by zero
    """

    code = "verifier"
    exit_code = 5


class ReaderFailedError(VerifierError):
    """A reader raised, or the reader's source answered with an error.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ReaderFailedError
        >>> lamp = {}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> def read_lamp() -> dict[str, bool]:
        ...     if lamp:
        ...         raise ReaderFailedError("The lamp's controller answers with status 500.")
        ...     return {"on": False}
        >>> switch = verified(switch_on, read=read_lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.state.value, outcome.why.value)
        unknown verifier_error
    """

    code = "verifier.reader-failed"
    remedy_default = "Check the system of record; verification continues within its window."


class ReaderTypeError(VerifierError):
    """A reader returned no Reading, or a value without a JSON form.

    Example:
        >>> from readback import Readback, action
        >>> lamp = {}
        >>> @action("lamp", ensure="authoritative.on", within="10ms")
        ... def switch_on() -> None: lamp["on"] = True
        >>> @switch_on.read(strong=True)
        ... def read_lamp(): return "on" if lamp else None
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch_on())
        >>> print(outcome.state.value, outcome.why.value)
        unknown verifier_error
        >>> print(outcome.detail.partition(":")[0])
        verifier.reader-type
    """

    code = "verifier.reader-type"
    remedy_default = "Return `Reading.of(...)` or `Reading.absent()`; in a contract file, correct the reader's keys."


class ReaderTimeoutError(VerifierError):
    """A reader exceeded its time limit.

    Example:
        >>> from collections.abc import Callable
        >>> from readback.errors import ReaderTimeoutError
        >>> def read_order(fetch: Callable[[], dict[str, str]]) -> dict[str, str]:
        ...     try:
        ...         return fetch()
        ...     except TimeoutError as error:
        ...         raise ReaderTimeoutError("The shop did not answer within 2 s.") from error
        >>> read_order(lambda: {"status": "shipped"})
        {'status': 'shipped'}
        >>> print(ReaderTimeoutError.code)
        verifier.reader-timeout
        >>> print(ReaderTimeoutError.remedy_default)
        Check the system of record; verification continues within its window.
    """

    code = "verifier.reader-timeout"
    remedy_default = "Check the system of record; verification continues within its window."


class OutOfScopeReadingError(VerifierError):
    """A reader returned a record of another tenant, target or region. The record's content was not stored.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import OutOfScopeReadingError
        >>> record = {"order": "o-17", "status": "open"}
        >>> def ship_order(order: str) -> None: record.update(order="o-99", status="shipped")
        >>> shipped = {"status": "shipped"}
        >>> ship = verified(ship_order, read=lambda order: record, id="order", expect=shipped, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(ship("o-17"))
        >>> print(outcome.state.value, outcome.why.value)
        review_required out_of_scope
        >>> print(OutOfScopeReadingError.code)
        verifier.out-of-scope
        >>> print(OutOfScopeReadingError.remedy_default)
        Correct the reader's query: select the record by the request's identity.
    """

    code = "verifier.out-of-scope"
    remedy_default = "Correct the reader's query: select the record by the request's identity."


class ToolError(ReadbackError):
    """The tool could not be called as intended. The call may still have had an effect, so the state is read back.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ToolError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None:
        ...     lamp["on"] = True
        ...     raise ToolError("The answer of the controller cannot be read.")
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.observation.status.value, outcome.verified)
        error True
        >>> print(outcome.observation.detail)
        The call raised ToolError: The answer of the controller cannot be read.
    """

    code = "tool"
    exit_code = 3


class NotDispatchedError(ToolError):
    """Provably nothing left this process. After this tool failure alone, no effect is searched.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import NotDispatchedError
        >>> def switch_on() -> None: raise NotDispatchedError("The controller's address is unknown.")
        >>> switch = verified(switch_on, read=lambda: {"on": False}, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.state.value, outcome.observation.status.value, outcome.may_repeat)
        failed not_dispatched True
        >>> print(outcome.observation.code)
        not-dispatched
    """

    code = "tool.not-dispatched"
    exit_code = 1
    remedy_default = "Correct the cause; repeating is safe."


class ToolTimeoutError(ToolError):
    """The tool exceeded its time limit. The effect may have landed, or may land later.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.errors import ToolTimeoutError
        >>> lamp = {"on": False}
        >>> def switch_on() -> None:
        ...     lamp["on"] = True
        ...     raise ToolTimeoutError("The controller did not answer within 2 s.")
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        >>> print(outcome.observation.status.value, outcome.verified)
        timeout True
        >>> print(ToolTimeoutError.code)
        tool.timeout
    """

    code = "tool.timeout"
    remedy_default = "Do not repeat; the result is unknown and being verified."


class NotVerifiedError(ReadbackError):
    """`raise_unless_verified` found an unverified outcome. `outcome` holds the outcome; the exit code follows from its
    state.

    Example:
        >>> from readback import NotVerifiedError, Readback, verified
        >>> lamp = {"on": False}
        >>> def switch_on() -> str: return "ok"
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         rb.run(switch()).raise_unless_verified()
        ...     except NotVerifiedError as error:
        ...         print(error.code, error.outcome.state.value, error.exit_code)
        ...         print(error.remedy)
        outcome.not-verified unknown 3
        Do not report the action as done; read `outcome.state` and `outcome.may_repeat`.
    """

    code = "outcome.not-verified"
    exit_code = 3
    remedy_default = "Do not report the action as done; read `outcome.state` and `outcome.may_repeat`."

    def __init__(
        self,
        message: str,
        *,
        outcome: object = None,
        exit_code: int = 3,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, details=details, code=code)
        self.outcome = outcome
        self.exit_code = exit_code


class DrillError(ReadbackError):
    """A drill could not confirm the contract's claim.

    Example:
        >>> from readback import verified
        >>> from readback.errors import DrillError
        >>> from readback.testing import drill_key
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> try:
        ...     drill_key(ship, {"order_id": "o-17"})
        ... except DrillError as error:
        ...     print(error.code, error.exit_code)
        drill.refused 5
    """

    code = "drill"
    exit_code = 5


class DrillRefusedError(DrillError):
    """The drill may not run: there is no safe twin, or the request names another target. Nothing was called.

    Example:
        >>> from readback import verified
        >>> from readback.errors import DrillRefusedError
        >>> from readback.testing import drill_key
        >>> def ship_order(order_id: str) -> None: ...
        >>> ship = verified(ship_order, read=lambda order_id: None, expect={"status": "shipped"})
        >>> try:
        ...     drill_key(ship, {"order_id": "o-17"})
        ... except DrillRefusedError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        drill.refused
        Declare a safe twin with the action's `.twin`, then drill the twin.
    """

    code = "drill.refused"
    remedy_default = "Declare a safe twin with the action's `.twin`, then drill the twin."


class DoubledEffectError(DrillError):
    """Two calls under one key had two effects: the tool does not honour the key as the contract claims.

    Example:
        >>> from readback import Context, Reading, action
        >>> from readback.errors import DoubledEffectError
        >>> from readback.testing import drill_key
        >>> def counting(stock: dict[str, int]):
        ...     @action("stock", kind="adjust", side_effect="low_risk_internal", operation="add {n}",
        ...         ensure="authoritative.n == before.n + requested.n", execute={"honours_key": True},
        ...         identity={"target": "has(authoritative.n)", "tenant": "not_offered"}, within="10ms")
        ...     def add_stock(ctx: Context, n: int) -> dict[str, str]:
        ...         stock["n"] += n
        ...         return {"key": ctx.idempotency_key}
        ...     @add_stock.read(strong=True, attributes=True)
        ...     def count() -> Reading: return Reading.of(dict(stock))
        ...     return add_stock
        >>> add_stock = counting({"n": 7})
        >>> twin = add_stock.twin(counting({"n": 7}))
        >>> try:
        ...     drill_key(add_stock, {"n": 3})
        ... except DoubledEffectError as error:
        ...     print(error.code, error.details["effects"])
        ...     print(error.remedy)
        drill.two-effects 2
        Remove `honours_key` from the contract until the tool honours the key.
    """

    code = "drill.two-effects"
    exit_code = 1
    remedy_default = "Remove `honours_key` from the contract until the tool honours the key."


class AnswersDifferError(DrillError):
    """Two calls under one key had one effect, and the second answer differs where the contract relies on it.

    Example:
        >>> from readback.errors import AnswersDifferError
        >>> from readback.testing import drill_key
        >>> def honours_key(action, arguments: dict[str, object]) -> str:
        ...     try:
        ...         return f"{drill_key(action, arguments).effects} effect"
        ...     except AnswersDifferError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(AnswersDifferError.code)
        drill.answers-differ
        >>> print(AnswersDifferError.remedy_default)
        Make the tool repeat its first answer for a repeated key, or do not rely on that field.
    """

    code = "drill.answers-differ"
    exit_code = 1
    remedy_default = "Make the tool repeat its first answer for a repeated key, or do not rely on that field."


class DrillUndeterminedError(DrillError):
    """The drill ran and shows nothing: no effect was seen, or a second effect could not be seen.

    Example:
        >>> from readback.errors import DrillUndeterminedError
        >>> from readback.testing import drill_key
        >>> def honours_key(action, arguments: dict[str, object]) -> str:
        ...     try:
        ...         return f"{drill_key(action, arguments).effects} effect"
        ...     except DrillUndeterminedError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(DrillUndeterminedError.code)
        drill.undetermined
        >>> print(DrillUndeterminedError.remedy_default)
        Add a `find` by stamp to the contract, and a twin where the action works.
    """

    code = "drill.undetermined"
    exit_code = 3
    remedy_default = "Add a `find` by stamp to the contract, and a twin where the action works."
