"""Public: recipes, verified actions of common shapes, ready for your systems.

Each recipe returns an action like a decorator does, made of the built-in executors and sources. A recipe adds nothing
to the engine. The steps are: stamp, act, read through another path, record, and retract an unfounded claim.

Example:
    >>> import sqlite3
    >>> from readback.recipes import Table, verified_row
    >>> from readback.systems import SqlExecutor, SqlSource
    >>> table = Table("orders", "id", ("status",), placeholder="?")
    >>> database = SqlExecutor("shop", lambda: sqlite3.connect("shop.db"))
    >>> primary = SqlSource("shop", lambda: sqlite3.connect("shop.db"))
    >>> write = verified_row(database, primary, table, recorded=False)
"""

from readback.recipes.choices import Choices
from readback.recipes.mail import CANDIDATES, LATE_WINDOW, SCHEDULE, WINDOW, MailAction, verified_mail
from readback.recipes.resources import Resource, ResourceAction, verified_create, verified_update
from readback.recipes.rows import RowAction, Table, verified_row
from readback.recipes.timings import Timings, timings_of
from readback.recipes.uploads import Measured, UploadAction, measured, verified_upload
from readback.recipes.webhook import (
    DELIVERY_HEADER,
    HttpReceipts,
    Receipts,
    SqlReceipts,
    WebhookAction,
    delivery_body,
    verified_webhook,
)

__all__ = [
    "CANDIDATES",
    "DELIVERY_HEADER",
    "LATE_WINDOW",
    "SCHEDULE",
    "WINDOW",
    "Choices",
    "HttpReceipts",
    "MailAction",
    "Measured",
    "Receipts",
    "Resource",
    "ResourceAction",
    "RowAction",
    "SqlReceipts",
    "Table",
    "Timings",
    "UploadAction",
    "WebhookAction",
    "delivery_body",
    "measured",
    "timings_of",
    "verified_create",
    "verified_mail",
    "verified_row",
    "verified_update",
    "verified_upload",
    "verified_webhook",
]
