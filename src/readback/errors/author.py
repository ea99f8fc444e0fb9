"""Errors where the contract's author or the operator is at fault. Import them from `readback.errors`."""

from __future__ import annotations

from collections.abc import Mapping

from readback.canon.fault import ReadbackError


class ContractError(ReadbackError):
    """A contract must not be run. Found at load.

    Example:
        >>> from readback import action
        >>> from readback.errors import ContractError
        >>> @action("lamp", ensure="authoritative.on ==")
        ... def switch_on() -> None: ...
        >>> try:
        ...     switch_on.load()
        ... except ContractError as error:
        ...     for problem in error.details["problems"]:
        ...         print(problem["key"], problem["reason"])
        ensure.ensure Syntax error: the expression ends too soon. (column 20)
        readers Nothing reads the system of record.
    """

    code = "contract"
    exit_code = 5


class ContractFieldError(ContractError):
    """A contract has an unknown key, or an invalid value for a key.

    Example:
        >>> from readback import action
        >>> from readback.errors import ContractFieldError
        >>> @action("lamp", ensure="authoritative.on", withn="10s")
        ... def switch_on() -> None: ...
        >>> try:
        ...     switch_on.load()
        ... except ContractFieldError as error:
        ...     print(error.code, error.details["problems"][0]["key"])
        contract.field withn
    """

    code = "contract.field"
    remedy_default = "Compare the contract with the key reference in docs/reference/contracts.md."


class MissingPostconditionError(ContractError):
    """A contract has no postcondition, so nothing could ever be verified.

    Example:
        >>> from readback import Reading, action
        >>> from readback.errors import MissingPostconditionError
        >>> @action("lamp")
        ... def switch_on() -> None: ...
        >>> @switch_on.read(strong=True)
        ... def read_lamp() -> Reading: return Reading.of({"on": True})
        >>> try:
        ...     switch_on.load()
        ... except MissingPostconditionError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        contract.missing-postcondition
        Add the expected state under `ensure`.
    """

    code = "contract.missing-postcondition"
    remedy_default = "Add the expected state under `ensure`."


class MissingReaderError(ContractError):
    """A contract has no reader and no `unverifiable` reason.

    Example:
        >>> from readback import action
        >>> from readback.errors import MissingReaderError
        >>> @action("lamp", ensure="authoritative.on")
        ... def switch_on() -> None: ...
        >>> try:
        ...     switch_on.load()
        ... except MissingReaderError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        contract.missing-reader
        Add a reader of the system of record, or `unverifiable:` with the reason.
    """

    code = "contract.missing-reader"
    remedy_default = "Add a reader of the system of record, or `unverifiable:` with the reason."


class WeakReaderError(ContractError):
    """A reader's consistency or independence is below the side-effect class's minimum.

    Example:
        >>> from readback import action
        >>> from readback.errors import WeakReaderError
        >>> identity = {"target": "authoritative.id == 'lamp'"}
        >>> @action("lamp", ensure="authoritative.on", side_effect="medium_risk_write", identity=identity)
        ... def switch_on() -> None: ...
        >>> read_lamp = switch_on.read(consistency="cached", independence="same_call")(lambda: None)
        >>> try:
        ...     switch_on.load()
        ... except WeakReaderError as error:
        ...     print(error.code)
        ...     for problem in error.details["problems"]:
        ...         print(problem["reason"])
        contract.weak-reader
        Its path is same_call; medium_risk_write needs at least other_client.
    """

    code = "contract.weak-reader"
    remedy_default = "Use a more independent or more consistent reader, or lower the class."


class ExpressionError(ContractError):
    """An expression was rejected at load. Codes: expression.syntax, .type, .limit, .unknown-name, .forbidden.

    `column` counts from 1 within `source`; 0 where the column is unknown.

    Example:
        >>> from readback import Reading, action
        >>> from readback.errors import ExpressionError
        >>> @action("lamp", ensure="authoritative.on ==")
        ... def switch_on() -> None: ...
        >>> @switch_on.read(strong=True)
        ... def read_lamp() -> Reading: return Reading.of({"on": True})
        >>> try:
        ...     switch_on.load()
        ... except ExpressionError as error:
        ...     print(error.code, repr(error.source), error.column)
        expression.syntax 'authoritative.on ==' 20
    """

    code = "expression"
    remedy_default = "Correct the expression. Nothing was evaluated."

    def __init__(
        self,
        message: str,
        *,
        source: str = "",
        column: int = 0,
        remedy: str = "",
        details: Mapping[str, object] | None = None,
        code: str | None = None,
    ) -> None:
        merged = {"source": source, "column": column, **(details or {})}
        super().__init__(message, remedy=remedy, details=merged, code=code)
        self.source = source
        self.column = column


class TemplateError(ContractError):
    """A template is malformed, or names a missing value.

    Example:
        >>> from readback import action
        >>> from readback.errors import TemplateError
        >>> @action("lamp/{room.name}", ensure="authoritative.on")
        ... def switch_on(room: str) -> None: ...
        >>> read_lamp = switch_on.read(strong=True)(lambda room: None)
        >>> try:
        ...     switch_on.load()
        ... except TemplateError as error:
        ...     print(error.code)
        ...     print(error.remedy)
        contract.template
        Use `{requested.name}` with the name of an existing argument.
    """

    code = "contract.template"
    remedy_default = "Use `{requested.name}` with the name of an existing argument."


class ContractChangedError(ContractError):
    """The loaded contract has another version than the contract at the action's start.

    Example:
        >>> from readback import Outcome, Readback
        >>> from readback.errors import ContractChangedError
        >>> def continue_actions(rb: Readback) -> list[Outcome] | str:
        ...     try:
        ...         return rb.resume()
        ...     except ContractChangedError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(ContractChangedError.code)
        contract.changed
        >>> print(ContractChangedError.remedy_default)
        Load the contract version of the action's start, or resolve the action in review.
    """

    code = "contract.changed"
    remedy_default = "Load the contract version of the action's start, or resolve the action in review."


class ContractFileError(ContractError):
    """Contract files cannot be used. `details["problems"]` holds every fault of every file, each with its place.

    None of the files is loaded.

    Example:
        >>> from pathlib import Path
        >>> from readback import contract_files
        >>> from readback.errors import ContractFileError
        >>> _ = Path("shop.yaml").write_text("apiVersion: readback/v1")
        >>> try:
        ...     contract_files("shop.yaml")
        ... except ContractFileError as error:
        ...     print(error.code, len(error.details["problems"]) > 1)
        ...     print(error.remedy)
        contract.file True
        Correct every listed fault; `readback contracts check` lists all of them.
    """

    code = "contract.file"
    remedy_default = "Correct every listed fault; `readback contracts check` lists all of them."


class FittingError(ContractError):
    """A system named in a contract file is unavailable: an extra is not installed, or a server lacks a tool.

    Example:
        >>> from readback import contract_files
        >>> from readback.errors import FittingError
        >>> def load(path: str) -> str:
        ...     try:
        ...         return ", ".join(contract_files(path))
        ...     except FittingError as error:
        ...         return f"{error.code}: {error.remedy}"
        >>> print(FittingError.code)
        contract.fitting
        >>> print(FittingError.remedy_default)
        Install the named extra, or run the contract where the system is available.
    """

    code = "contract.fitting"
    remedy_default = "Install the named extra, or run the contract where the system is available."


class UndecidedError(ContractError):
    '''A drafted contract has a value still waiting for a person's decision. Nothing of the file is used.

    Example:
        >>> from pathlib import Path
        >>> from readback import contract_files
        >>> from readback.errors import ContractFileError
        >>> _ = Path("draft.yaml").write_text("""
        ... apiVersion: readback/v1
        ... kind: Contracts
        ... metadata: {name: notes, version: 1.0.0}
        ... contracts:
        ...   write_note:
        ...     kind: DECIDE set
        ...     side_effect: ephemeral_write
        ...     target: note/{requested.name}
        ...     arguments: {name: string, text: string}
        ...     execute: {file: {root: ., do: write, path: "{requested.name}", content: "{requested.text}"}}
        ...     readers: [file: {root: ., path: "{requested.name}"}]
        ...     ensure: {there: authoritative != null}
        ... """)
        >>> try:
        ...     contract_files("draft.yaml")
        ... except ContractFileError as error:
        ...     problem = error.details["problems"][0]
        ...     print(problem["code"], problem["path"], problem["line"], problem["column"])
        contract.undecided contracts.write_note.kind 7 11
    '''

    code = "contract.undecided"
    remedy_default = "Delete the word DECIDE to accept the proposal, or write the right value."


class SettingsError(ReadbackError):
    """Operator settings are missing, malformed or not trusted.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import SettingsError
        >>> try:
        ...     Readback.open("mysql://localhost/ledger")
        ... except SettingsError as error:
        ...     print(error.code, error.message)
        ...     print(error.remedy)
        settings No ledger store supports 'mysql' URLs.
        Use sqlite:///file.db, sqlite:////absolute/file.db, postgresql://user@host/database, or memory:.
    """

    code = "settings"
    exit_code = 5


class SinkError(SettingsError):
    """A subscriber did not accept a message. The message stays in the subscriber's queue and is sent again later.

    `details`: `final` for a permanent rejection, `retry_after_us` for a requested pause in microseconds.

    Example:
        >>> from readback import Message, Subscriber
        >>> from readback.errors import SinkError
        >>> def notify(message: Message) -> None:
        ...     raise SinkError("The pager rejects this event.", details={"final": True})
        >>> pager = Subscriber("pager", tell=notify, events=["incident.opened"])
        >>> print(pager.name, pager.attempts)
        pager 8
        >>> print(SinkError.code)
        settings.sink
        >>> print(SinkError.remedy_default)
        Check the subscriber's target; `readback events list` shows its position.
    """

    code = "settings.sink"
    remedy_default = "Check the subscriber's target; `readback events list` shows its position."


class TelemetryError(SettingsError):
    """A receiver of spans did not accept them, or telemetry is set up wrongly. Actions continue.

    Spans follow from the ledger, so nothing is lost: the follower sends them again later.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import TelemetryError
        >>> from readback.telemetry import export_spans
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         export_spans(rb, "localhost")
        ...     except TelemetryError as error:
        ...         print(error.code, error.message)
        ...         print(error.remedy)
        telemetry.endpoint The endpoint 'localhost' is no address of a receiver.
        Pass an address such as http://localhost:4318.
    """

    code = "telemetry"
    remedy_default = "Check the endpoint and the OTEL_EXPORTER_OTLP_* variables. Actions continue without export."


class MetricsError(ReadbackError):
    """The metrics of a ledger cannot be served or kept. No action is affected.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import MetricsError
        >>> from readback.telemetry import metrics_of
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         metrics_of(rb, labels={"deploy region": "eu"})
        ...     except MetricsError as error:
        ...         print(error.code, error.message)
        metrics.label 'deploy region' cannot name a label.
    """

    code = "metrics"
    exit_code = 5


class MetricsPortError(MetricsError):
    """The port for `/metrics` is in use, or the address is not available.

    Example:
        >>> import socket
        >>> from readback import Readback
        >>> from readback.errors import MetricsPortError
        >>> from readback.telemetry import MetricsServer, metrics_of
        >>> with Readback.open("memory:") as rb, socket.create_server(("127.0.0.1", 0)) as taken:
        ...     try:
        ...         MetricsServer(metrics_of(rb), lambda: (True, {}), port=taken.getsockname()[1])
        ...     except MetricsPortError as error:
        ...         print(error.code)
        ...         print(error.remedy)
        metrics.port
        Choose a free port with --metrics-port, or stop the process that uses the port.
    """

    code = "metrics.port"
    remedy_default = "Choose a free port with --metrics-port."


class MetricsLabelError(MetricsError):
    """A constant label of the metrics has an invalid or reserved name, or an invalid value.

    Example:
        >>> from readback import Readback
        >>> from readback.errors import MetricsLabelError
        >>> from readback.telemetry import metrics_of
        >>> with Readback.open("memory:") as rb:
        ...     try:
        ...         metrics_of(rb, labels={"deploy region": "eu"})
        ...     except MetricsLabelError as error:
        ...         print(error.code, error.message)
        ...         print(error.remedy)
        metrics.label 'deploy region' cannot name a label.
        Use letters, digits and underscores.
    """

    code = "metrics.label"
    exit_code = 2
    remedy_default = "Pass --label NAME=VALUE, such as --label environment=production."


class CheckpointDamagedError(MetricsError):
    """The checkpoint of the metrics is damaged or unreadable. The ledger is folded anew.

    Example:
        >>> from readback.errors import CheckpointDamagedError
        >>> from readback.telemetry import LedgerMetrics
        >>> def refresh(metrics: LedgerMetrics) -> str:
        ...     try:
        ...         metrics.refresh()
        ...     except CheckpointDamagedError as error:
        ...         return f"{error.code}: {error.remedy}"
        ...     return "current"
        >>> print(CheckpointDamagedError.code)
        metrics.checkpoint
        >>> print(CheckpointDamagedError.remedy_default)
        Nothing to do: the next checkpoint replaces the file. Check the disk if this repeats.
    """

    code = "metrics.checkpoint"
    remedy_default = "Nothing to do: the next checkpoint replaces the file. Check the disk if this repeats."
