"""Public: errors of the HTTP API, each with a stable code and the HTTP status of its problem document.

Other errors of Readback reach a client with their own codes; `problems` holds the table of statuses.
"""

from __future__ import annotations

from readback.errors import InputError, InvariantError, SettingsError


class UnauthenticatedError(InputError):
    """The request carries no valid token. Nothing of the request was read."""

    code = "http.unauthenticated"
    remedy_default = "Send `Authorization: Bearer TOKEN`; `readback token create` makes a token."


class ProviderError(SettingsError):
    """The keys of an identity provider cannot be read, so the token cannot be checked. Nothing was done."""

    code = "http.provider"
    remedy_default = "Check the issuer's URL in server.toml, and whether this machine reaches the provider."


class MissingRightError(InputError):
    """The token lacks the right that the route requires. Nothing was done."""

    code = "http.missing-right"
    remedy_default = "Use a token with the named right; `readback token create --right NAME` makes a token."


class RouteError(InputError):
    """The server has no such route, or the route does not support the method."""

    code = "http.no-route"
    remedy_default = "See /openapi.json for the routes and their methods."


class MethodError(RouteError):
    """The route does not support the method. The `Allow` header lists the supported methods."""

    code = "http.method"


class BodyError(InputError):
    """The request's body, query or headers do not fit the route's schema. Nothing was done."""

    code = "http.body"
    remedy_default = "Send the body described in /openapi.json."


class BodyTooLargeError(InputError):
    """The request's body exceeds the size limit. The server stopped reading at the limit."""

    code = "http.body-too-large"
    remedy_default = "Send a smaller body, or a reference in place of the whole value."


class MediaTypeError(InputError):
    """The request's body has another media type than JSON."""

    code = "http.media-type"
    remedy_default = "Send `Content-Type: application/json`."


class IdempotencyKeyError(InputError):
    """The request needs an Idempotency-Key header. Nothing was done."""

    code = "http.idempotency-key"
    remedy_default = "Send `Idempotency-Key: NAME`, the same for every repetition of the same intent."


class PreconditionRequiredError(InputError):
    """A decision needs the version that the person saw, in an If-Match header. Nothing was decided."""

    code = "http.precondition-required"
    remedy_default = "Read the case again, and send its ETag as `If-Match`."


class PreconditionFailedError(InputError):
    """The thing has another version than the If-Match header names. Nothing was decided."""

    code = "http.precondition-failed"
    remedy_default = "Read the case again, decide anew, and send the new ETag."


class RateLimitError(InputError):
    """The token sent more requests than its limit. Nothing was done."""

    code = "http.rate-limit"
    remedy_default = "Wait for the seconds named by `Retry-After`, then repeat the request."


class ServerBusyError(InputError):
    """The server has the maximum number of requests, or is stopping. Nothing was recorded."""

    code = "http.busy"
    remedy_default = "Repeat the same request after the seconds named by `Retry-After`."


class ForeignHostError(InputError):
    """The request named another host, or came from a page of another origin. Nothing of the request was read."""

    code = "http.foreign-request"
    remedy_default = "Address the server by its own name; `readback serve --allow-host NAME` adds a name."


class InProgressError(InputError):
    """A request with the same Idempotency-Key is in progress in this server. This request did nothing."""

    code = "http.in-progress"
    remedy_default = "Wait for the first answer, or look: GET /v1/actions?contract=NAME&operation=KEY."


class NotSealedError(InputError):
    """No signed checkpoint covers the entry, so there is no proof yet."""

    code = "http.not-sealed"
    remedy_default = "Give the server a key of the log, or ask again after the next checkpoint."


class WebhookError(InputError):
    """A webhook's signature or secret is missing, wrong or too old. The webhook woke nothing."""

    code = "http.webhook"
    remedy_default = "Compare the sender's secret with the server's settings, and the sender's clock with the server's."


class NoSandboxError(InputError):
    """The contract has no sandbox, and the request asked for a test. Nothing was called."""

    code = "http.no-sandbox"
    remedy_default = "Declare a safe twin with the action's `.twin`, or send the request without `test`."


class InternalError(InvariantError):
    """The server met an unexpected error before it recorded anything. The log names the request's id."""

    code = "http.internal"
    exit_code = 6
    remedy_default = "Repeat the same request with the same Idempotency-Key; tell the operator the request's id."
