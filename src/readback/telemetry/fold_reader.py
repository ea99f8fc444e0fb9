"""The metrics of one ledger, kept up to date by folding new entries on request.

Used by `readback metrics`, by the `/metrics` page and by the OpenTelemetry instruments. One reader may serve several
threads. A request costs the entries since the last request. Actions never wait for a reader.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from readback.audit.feedback.fold import Fold
from readback.audit.feedback.story import Story
from readback.canon import CanonError, parse_json
from readback.client.async_client import AsyncReadback
from readback.client.client import Readback
from readback.errors import CheckpointDamagedError, MetricsLabelError, StoreError
from readback.ports.storage.store import LedgerStore
from readback.telemetry import fold_checkpoint
from readback.telemetry.metrics import (
    LEDGER_LABEL,
    RESERVED_LABELS,
    Family,
    Labels,
    Measured,
    Waits,
    families,
    measured,
)

SAVE_AFTER_ENTRIES: Final = 10_000
"""A checkpoint is written after so many new entries, and at the end."""
LABELS_MAX: Final = 16
LABEL_MAX_CHARACTERS: Final = 128
LEDGER_CHARACTERS: Final = 8
WINDOW_DEFAULT_US: Final = 600_000_000
"""The limit of a pending action whose contract text is not in the ledger, in microseconds."""
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

log: Final = logging.getLogger("readback.metrics")


class LedgerMetrics:
    """The counts and the series of one ledger.

    Args:
        store: The open ledger. The reader closes nothing.
        now_us: The clock, in microseconds since the epoch.
        tenants: The counted tenants; empty for all tenants.
        by_tenant: Whether the tenant is a label of each series.
        labels: Constant labels of every sample, such as the environment's name.
        checkpoint: The file of the fold's checkpoint; None to keep no checkpoint.

    Raises:
        MetricsLabelError: A constant label has an invalid or reserved name, or a value that is too long.

    Example:
        >>> from readback import Readback
        >>> from readback.telemetry import metrics_of
        >>> with Readback.open("memory:") as rb:
        ...     metrics_of(rb).refresh().position
        0
    """

    def __init__(
        self,
        store: LedgerStore,
        now_us: Callable[[], int],
        *,
        tenants: Sequence[str] = (),
        by_tenant: bool = False,
        labels: Mapping[str, str] | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        self._labels = check_labels(labels or {})
        self._store, self._now_us, self._path = store, now_us, checkpoint
        self._tenants, self._by_tenant = tuple(tenants), by_tenant
        self._lock = threading.Lock()
        self._fold: Fold | None = None
        self._first = ""
        self._saved = 0
        self._windows = ContractWindows(store)

    def refresh(self) -> Fold:
        """Fold all new entries and return the fold. Raises StoreError, StoreCorruptError."""
        with self._lock:
            return self._refreshed()

    @property
    def position(self) -> int:
        """The position of the last folded entry, during a fold too."""
        fold = self._fold
        return 0 if fold is None else fold.position

    def families(self) -> list[Family]:
        """Fold all new entries and return all series. Raises StoreError, StoreCorruptError."""
        with self._lock:
            fold = self._refreshed()
            constant = {**self._labels, LEDGER_LABEL: self._first[:LEDGER_CHARACTERS]}
            waits = self._waits(fold)
            return families(fold.feedback, fold.position, waits, constant, by_tenant=self._by_tenant)

    def measured(self) -> dict[str, dict[str, Measured]]:
        """Fold all new entries and return the nineteen metrics by contract, over the whole ledger."""
        with self._lock:
            fold = self._refreshed()
            return measured(fold.feedback, self._waits(fold))

    def save(self, *, now: bool = False) -> None:
        """Write the checkpoint if enough entries are new; `now`: if any entry is new. A failure is a warning."""
        with self._lock:
            fold = self._fold
            if fold is None or self._path is None:
                return
            fresh = fold.position - self._saved
            if fresh < (1 if now else SAVE_AFTER_ENTRIES):
                return
            try:
                state = fold.state()
                fold_checkpoint.save(self._path, self._store, state, self._tenants, by_tenant=self._by_tenant)
            except (StoreError, OSError) as error:
                _warn("The checkpoint of the metrics was not written. The next start folds the ledger anew.", error)
                self._path = None
                return
            self._saved = fold.position

    def over_window(self, story: Story) -> bool:
        """Return whether a pending action is past the window of the contract."""
        return self._windows.is_over(story, self._now_us())

    def _refreshed(self) -> Fold:
        fold = self._fold
        if fold is None:
            fold = self._fold = self._begin()
            self._saved = fold.position
        if not self._first:
            self._first = fold_checkpoint.first_leaf(self._store)
        fold.take(self._store.scan(fold.position))
        return fold

    def _begin(self) -> Fold:
        state = None
        if self._path is not None:
            try:
                state = fold_checkpoint.load(self._path, self._store, self._tenants, by_tenant=self._by_tenant)
            except CheckpointDamagedError as error:
                _warn("The checkpoint of the metrics is not used. The ledger is folded anew.", error)
        return Fold(self._tenants, by_tenant=self._by_tenant, history=self._store.events, state=state)

    def _waits(self, fold: Fold) -> dict[int, Waits]:
        """The pending actions of each group, by the windows of their contracts."""
        now_us, found = self._now_us(), dict[int, Waits]()
        for story in fold.pending().values():
            age = max(now_us - story.executed_us, 0)
            over = self._windows.is_over(story, now_us)
            was = found.get(story.cell, Waits())
            found[story.cell] = Waits(was.within + (not over), was.over + over, max(was.oldest_us, age))
        return found


def metrics_of(
    client: Readback | AsyncReadback, *, by_tenant: bool = False, labels: Mapping[str, str] | None = None
) -> LedgerMetrics:
    """Return the metrics of a client's ledger, for the client's tenant.

    The first request reads the whole ledger. No checkpoint is kept.

    Args:
        client: An open client.
        by_tenant: Whether to count all tenants, each with a label.
        labels: Constant labels of every sample.

    Raises:
        UsageError: The client is closed.
        MetricsLabelError: A constant label is invalid.

    Example:
        >>> from readback import Readback, verified
        >>> from readback.telemetry import metrics_of
        >>> lamp = {"on": False}
        >>> def switch_on() -> None: lamp["on"] = True
        >>> switch = verified(switch_on, read=lambda: lamp, strong=True, expect={"on": True})
        >>> with Readback.open("memory:") as rb:
        ...     outcome = rb.run(switch())
        ...     found = metrics_of(rb).measured()["verification-success"]["switch_on"]
        >>> found.over, found.under, found.value
        (1, 1, 1.0)
    """
    session = client._session  # noqa: SLF001 - of this package
    session.check_open()
    tenants = () if by_tenant else (session.scope.tenant,)
    return LedgerMetrics(session.store, session.runtime.now_us, tenants=tenants, by_tenant=by_tenant, labels=labels)


class ContractWindows:
    """The windows of contracts (`within`), from the contracts' texts in a ledger. Each text is read once."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._known: dict[tuple[str, str], int] = {}

    def is_over(self, story: Story, now_us: int) -> bool:
        """Return whether an executed action is past the window at this time."""
        key = (story.tenant, story.contract_ref)
        if key not in self._known:
            self._known[key] = self._window_us(*key)
        return now_us - story.executed_us > self._known[key]

    def _window_us(self, tenant: str, digest: str) -> int:
        evidence = self._store.evidence(tenant, "", digest) if digest else None
        if evidence is None:
            return WINDOW_DEFAULT_US
        try:
            text = parse_json(evidence.body)
        except CanonError:
            return WINDOW_DEFAULT_US
        window = text.get("within_us") if isinstance(text, dict) else None
        return window if isinstance(window, int) else WINDOW_DEFAULT_US


def check_labels(labels: Mapping[str, str]) -> Labels:
    """Return constant labels. Raises MetricsLabelError for an invalid, reserved or too long label."""
    if len(labels) > LABELS_MAX:
        raise MetricsLabelError(f"There are {len(labels)} constant labels, and at most {LABELS_MAX} are permitted.")
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or name.startswith("__"):
            raise MetricsLabelError(f"{name!r:.80} cannot name a label.", remedy="Use letters, digits and underscores.")
        if name in RESERVED_LABELS:
            raise MetricsLabelError(f"The label {name!r} belongs to Readback.", remedy="Choose another name.")
        if not value or len(value) > LABEL_MAX_CHARACTERS or not value.isprintable():
            said = f"The value of the label {name!r} must have 1 to {LABEL_MAX_CHARACTERS} printable characters."
            raise MetricsLabelError(said)
    return dict(labels)


def _warn(text: str, error: Exception) -> None:
    code = getattr(error, "code", type(error).__name__)
    log.warning("%s %s", text, error, extra={"readback_code": code})
