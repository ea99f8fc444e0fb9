"""A ledger file with actions whose payloads bear words that are looked for in the files afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from readback import Context, Outcome, Readback, Reading, action, bootstrap
from readback.audit.checks.ledger import AuditReport, audit
from readback.client.authoring.action import ActionDefinition
from readback.testing.runtime_virtual import VirtualRuntime

TENANT = "acme"


@dataclass(slots=True)
class Book:
    """The system of record: a page by its name."""

    pages: dict[str, dict[str, Any]] = field(default_factory=dict)


def write_of(book: Book, seen: Book | None = None, **terms: Any) -> ActionDefinition[Any]:
    """An action that writes a text onto a page, and reads the page back; out of `seen`, where that is another book."""
    plain: dict[str, Any] = {
        "name": "write",
        "kind": "set",
        "side_effect": "low_risk_internal",
        "target": "page/{requested.page}",
        "identity": {"target": "authoritative.id", "tenant": "authoritative.tenant"},
        "ensure": {"text": "authoritative.text == requested.text"},
        "within": "10s",
        "polls": ["0s", "1s"],
    }

    @action(**{**plain, **terms})
    def write(ctx: Context, page: str, text: str) -> object:
        row = {"id": page, "tenant": TENANT, "text": text, "stamp": ctx.stamp, "key": ctx.idempotency_key}
        if (book.pages.get(page) or {}).get("key") != row["key"]:  # one key, one effect
            book.pages[page] = row
        return {"written": text}

    @write.read(source="book", consistency="strong", independence="other_client")
    def page_row(ctx: Context, page: str, text: str) -> Reading:
        found = (seen or book).pages.get(page)
        return Reading.absent() if found is None else Reading.of(dict(found), stamp=found["stamp"])

    return write


@dataclass(slots=True)
class Shelf:
    """The ledger in its file, and whoever works with it."""

    folder: Path
    runtime: VirtualRuntime
    book: Book
    write: ActionDefinition[Any]

    @property
    def path(self) -> Path:
        return self.folder / "readback.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def open(self, tenant: str = TENANT) -> Readback:
        return Readback.open(self.url, tenant=tenant, principal="agent:ops", runtime=self.runtime, actions=[self.write])

    def fill(self, texts: dict[str, str]) -> dict[str, Outcome]:
        """One verified action for each page and text."""
        with self.open() as rb:
            return {page: rb.run(self.write(page=page, text=text), operation=page) for page, text in texts.items()}

    def files(self) -> bytes:
        """Everything that the database's own files hold."""
        found = (Path(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm"))
        return b"".join(each.read_bytes() for each in found if each.exists())

    def audited(self) -> AuditReport:
        store = bootstrap.store(self.url, read_only=True)
        try:
            report = audit(store)
            assert bootstrap.store_damage(store) == []
            return report
        finally:
            store.close()


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    book = Book()
    return Shelf(tmp_path, VirtualRuntime(), book, write_of(book))
