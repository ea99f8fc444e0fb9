"""Problem documents: each error of Readback as `application/problem+json`, with the error's own stable code.

Source: RFC 9457. `type` is a URN with the code of the reference of errors, and `code` repeats the code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from readback.canon import Json, ReadbackError, json_value
from readback.canon.fault import CanonError
from readback.errors import (
    ApprovalError,
    ClaimError,
    ConflictError,
    ContractError,
    ErasedEvidenceError,
    InputError,
    LeaseLostError,
    LimitError,
    MissingScopeError,
    NotFoundError,
    OversizeError,
    PayloadConflictError,
    ReviewError,
    SettingsError,
    StoreError,
    UnknownPrincipalError,
    UnknownTenantError,
    VerifierError,
)
from readback.server import errors

MEDIA: Final = b"application/problem+json"
DETAIL_MAX_CHARS: Final = 2_000
FAULTS_MAX: Final = 100

BY_CODE: Final[Mapping[str, int]] = {
    "review.stale": 412,
    "review.signature": 403,
    "review.self": 403,
    "review.not-offered": 409,
    "review.resolved": 409,
    "review.key-taken": 409,
    "claim.stale": 412,
    "claim.signature": 403,
    "claim.self": 403,
    "approval.self": 403,
    "approval.forged": 403,
    "approval.unknown-approver": 403,
}
"""Statuses of single codes, where the code says more than the error's type."""

BY_TYPE: Final[tuple[tuple[type[ReadbackError], int], ...]] = (
    (errors.UnauthenticatedError, 401),
    (errors.MissingRightError, 403),
    (errors.ProviderError, 503),
    (errors.ForeignHostError, 421),
    (errors.MethodError, 405),
    (errors.RouteError, 404),
    (errors.BodyTooLargeError, 413),
    (errors.MediaTypeError, 415),
    (errors.IdempotencyKeyError, 400),
    (errors.BodyError, 400),
    (errors.PreconditionRequiredError, 428),
    (errors.PreconditionFailedError, 412),
    (errors.RateLimitError, 429),
    (errors.ServerBusyError, 503),
    (errors.WebhookError, 401),
    (errors.NoSandboxError, 422),
    (errors.InProgressError, 409),
    (errors.NotSealedError, 409),
    (errors.InternalError, 500),
    (NotFoundError, 404),
    (UnknownTenantError, 404),
    (ErasedEvidenceError, 410),
    (PayloadConflictError, 422),
    (UnknownPrincipalError, 403),
    (MissingScopeError, 403),
    (LimitError, 429),
    (OversizeError, 413),
    (ReviewError, 409),
    (ApprovalError, 409),
    (ClaimError, 409),
    (CanonError, 422),
    (InputError, 422),
    (ContractError, 409),
    (SettingsError, 503),
    (ConflictError, 409),
    (LeaseLostError, 409),
    (StoreError, 503),
    (VerifierError, 409),
)
"""The status of each family of errors; the first match counts."""

TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Erased",
    412: "Version is stale",
    413: "Too large",
    415: "Unsupported media type",
    421: "Wrong host",
    422: "Not processable",
    428: "Version required",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
}


def status_of(error: ReadbackError) -> int:
    """Return the HTTP status of an error."""
    found = BY_CODE.get(error.code)
    if found is not None:
        return found
    return next((status for kind, status in BY_TYPE if isinstance(error, kind)), 500)


def problem_of(error: ReadbackError, *, instance: str = "", status: int = 0) -> dict[str, Json]:
    """Return the problem document of an error. `instance`: the request's id, or the path of the affected thing."""
    status = status or status_of(error)
    found: dict[str, Json] = {
        "type": f"urn:readback:problem:{error.code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "code": error.code,
        "detail": error.message[:DETAIL_MAX_CHARS],
    }
    if error.remedy:
        found["remedy"] = error.remedy[:DETAIL_MAX_CHARS]
    if instance:
        found["instance"] = instance
    faults = error.details.get("problems")
    if isinstance(faults, list | tuple) and faults:
        found["faults"] = [_fault(each) for each in faults[:FAULTS_MAX]]
    return found


def _fault(value: object) -> Json:
    if isinstance(value, Mapping):
        return json_value(dict(value))
    return str(value)[:DETAIL_MAX_CHARS]


def problem_bytes(error: ReadbackError, *, instance: str = "", status: int = 0) -> bytes:
    """Return the problem document as JSON."""
    return json.dumps(problem_of(error, instance=instance, status=status), ensure_ascii=True).encode()
