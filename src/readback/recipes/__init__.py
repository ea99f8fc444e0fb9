"""Public: recipes: verified actions of the usual shapes, ready to be given systems and run.

`from readback.recipes import verified_mail`. Each is an action like one that a decorator makes, of the built-in
executors and sources; it adds nothing to the engine. Stamp, act, look by another path, record, and withdraw what was
claimed where nothing is found.
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
