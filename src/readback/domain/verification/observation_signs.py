"""Signs in a tool's answer: flags, status words, error fields, HTTP codes.

Called by `observation` with plain JSON values. The worst sign counts: tools answer `200` with `success: false`, and
`ok: true` with a list of errors. Signs do not decide the result of the action.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from readback.canon import CanonError, Json, json_text, parse_json
from readback.canon.frozen import dataclass
from readback.canon.limits import EVIDENCE_MAX_BYTES

DETAIL_MAX_CHARACTERS: Final = 240
PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._@/:#~+%=-]+")


class ObservationStatus(StrEnum):
    """Status of an answer, by its own signs.

    Example:
        >>> from readback import ObservationStatus, Readback, verified
        >>> def switch_on() -> None: raise TimeoutError("no answer within 2 s")
        >>> switch = verified(switch_on, read=lambda: {"on": False}, expect={"on": True}, within="10ms")
        >>> with Readback.open("memory:") as rb:
        ...     observation = rb.run(switch()).observation
        >>> print(observation.status.value, observation.status is ObservationStatus.TIMEOUT)
        timeout True
    """

    SUCCESS = "success"
    ACCEPTED = "accepted"
    PENDING = "pending"
    PARTIAL = "partial"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MALFORMED = "malformed"
    """An answer without structure. Its words lead to no conclusion."""
    NONE = "none"
    """No answer was recorded: the process died, or the attempt was cut off."""
    NOT_DISPATCHED = "not_dispatched"
    """Provably no request left this process."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign in an answer."""

    status: ObservationStatus
    code: str
    detail: str


def one_line(text: str, limit: int = DETAIL_MAX_CHARACTERS) -> str:
    """External text as one bounded line, without control, format or direction characters.

    Recognisable credentials are removed: inside an address, or after their name.
    """
    if len(text) <= limit and text.isprintable() and "  " not in text:
        clean = without_credentials(text.strip())
        if len(clean) <= limit:
            return clean
    seen = text[: 8 * limit]
    clean = without_credentials(seen)
    head = clean[: 4 * limit]
    plain = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in head)
    line = " ".join(plain.split())
    whole = len(seen) == len(text) and len(head) == len(clean)
    return line if len(line) <= limit and whole else line[: limit - 1] + "…"


def name_in_text(name: str, limit: int = DETAIL_MAX_CHARACTERS) -> str:
    """An external name for use in a sentence: unquoted as one plain word, else in quotes.

    A target's name comes from a model's request. Without quotes, words in the name could end the sentence and report
    another action.
    """
    line = one_line(name, limit)
    return line if PLAIN_NAME.fullmatch(line) else json_text(line, ensure_ascii=False)


def without_credentials(text: str) -> str:
    """The text without recognisable credentials. A guess: the contract declares the secrets."""
    if "://" in text:
        text = _USER_INFO.sub(r"\1[redacted]@", text)
    if "?" in text:
        text = _ASKED_SECRET.sub(r"\1[redacted]", text)
    return _NAMED_SECRET.sub(r"\1[redacted]", text) if ":" in text or "=" in text else text


_USER_INFO: Final = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://)[^\s/?#@]*@", re.IGNORECASE)
_ASKED_SECRET: Final = re.compile(r"([?&](?:token|sig|signature|secret)=)[^\s&#\"'<>)]{1,4096}", re.IGNORECASE)
"""Names of credentials in an address's query."""
_NAMED_SECRET: Final = re.compile(
    r"""(["']?\b(?:(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api[-_ ]?key|(?:access|refresh|auth|bearer|id)"""
    r"""[-_ ]?token|client[-_ ]?secret|secret[-_ ]?(?:access[-_ ]?)?key|private[-_ ]?key|password|passwd|passphrase)"""
    r"""["']?\s{0,3}[:=]\s{0,3})(?:["'](?:(?:bearer|basic|digest|token)\s{1,3})?[^"']{1,4096}["']"""
    r"""|(?:(?:bearer|basic|digest|token)\s{1,3})?[^\s"',;&)]{1,4096})""",
    re.IGNORECASE,
)
"""A name used only for credentials, with its value."""

_O = ObservationStatus
_WORST_FIRST: Final = (
    _O.ERROR,
    _O.TIMEOUT,
    _O.CANCELLED,
    _O.MALFORMED,
    _O.PARTIAL,
    _O.PENDING,
    _O.ACCEPTED,
    _O.SUCCESS,
)
_RANK: Final = MappingProxyType({status: rank for rank, status in enumerate(_WORST_FIRST)})
NESTING_MAX_LEVELS: Final = 3
ITEMS_MAX: Final = 1_000
ERROR_TEXT_CODE: Final = "malformed.error-text"

_OK_FLAGS: Final = ("success", "ok", "succeeded", "successful", "acknowledged")
_FAIL_FLAGS: Final = ("iserror", "haserror", "haserrors", "failed", "failure")
_ERROR_FIELDS: Final = ("error", "errors", "exception", "errormessage", "errorcode", "fault")
_OKS: Final = frozenset(_OK_FLAGS)
_FLAGS: Final = frozenset({*_OK_FLAGS, *_FAIL_FLAGS})
_ERRORS: Final = frozenset(_ERROR_FIELDS)
_CANCELLED: Final = ("cancelled", "canceled")
_STATUS_FIELDS: Final = ("status", "state", "result", "outcome", "resultcode", "resulttype")
_CODE_FIELDS: Final = ("status", "statuscode", "httpstatus", "httpstatuscode")
_STATUSES: Final = frozenset(_STATUS_FIELDS)
_CODES: Final = frozenset(_CODE_FIELDS)
_WRAPPERS: Final = ("data", "result", "response", "structuredcontent", "body", "output")
_LISTS: Final = ("results", "content")
_PARTS: Final = frozenset({*_WRAPPERS, *_LISTS})

_WORDS_OF: Final = (
    (
        _O.ERROR,
        "error errored fail failed failure fatal declined rejected denied refused bounced undeliverable "
        "forbidden unauthorized unauthorised aborted crashed invalid exception nok",
    ),
    (_O.TIMEOUT, "timeout timed_out timedout deadline_exceeded"),
    (_O.PARTIAL, "partial partially_completed partial_success partial_failure incomplete"),
    (
        _O.PENDING,
        "pending processing in_progress inprogress running working waiting started starting initiated "
        "deferred delayed retrying authorized authorised requires_action awaiting_confirmation "
        "awaiting_approval input_required",
    ),
    (_O.ACCEPTED, "accepted queued enqueued scheduled submitted received acknowledged buffered"),
)
_WORDS: Final = MappingProxyType({word: status for status, words in _WORDS_OF for word in words.split()})
"""Words of status fields. Any other word is no sign."""

_ERROR_TEXT: Final = re.compile(
    r"^\W*(?:time-?out\b|timed out\b|deadline exceeded\b|\w*(?:error|exception|failure)\b|err\b"
    r"|fail(?:ed|s)?\b|traceback\b|fatal\b|panic\b|denied\b"
    r"|forbidden\b|unauthori[sz]ed\b|permission denied|access denied|invalid\b|unable to\b|can(?:not|'t)\b"
    r"|could not\b|couldn't\b|rejected\b|refused\b|aborted\b|connection refused|no such\b|not found\b"
    r"|\d{3} (?:internal|bad|forbidden|unauthori|not found|service unavailable))",
    re.IGNORECASE,
)


def worst(first: Sign, *others: Sign) -> Sign:
    """The worst sign; among equals, the first."""
    return min((first, *others), key=lambda sign: _RANK[sign.status]) if others else first


def text_sign(text: str) -> Sign | None:
    """Raw text beginning with an error claims nothing. Words never make an answer a success or a failure."""
    if _ERROR_TEXT.match(text):
        detail = f"The answer is text that leads with an error: {one_line(text, 120)}"
        return Sign(_O.MALFORMED, ERROR_TEXT_CODE, detail)
    return None


def http_sign(status: int) -> Sign:
    """The sign of an HTTP status. 408 and 504 leave the effect open, like any timeout."""
    code = f"http.{status}"
    if status in (408, 504):
        return Sign(_O.TIMEOUT, code, f"The service answered {status}: it did not wait for the result.")
    if status == 202:
        return Sign(_O.ACCEPTED, code, "The service answered 202: accepted, not completed.")
    if status == 207:
        return Sign(_O.PARTIAL, code, "The service answered 207: the parts have their own results.")
    if 200 <= status < 300:
        return Sign(_O.SUCCESS, code, f"The service answered {status}.")
    if 300 <= status < 400:
        return Sign(_O.ERROR, code, f"The service answered {status}: a redirect that was not followed.")
    if status >= 400:
        return Sign(_O.ERROR, code, f"The service answered {status}.")
    return Sign(_O.MALFORMED, code, f"The service answered {status}, which is no final status.")


def signs_of(value: Json) -> list[Sign]:
    """Every sign in a plain JSON value."""
    return [*_value_signs(value, 0)]


def _value_signs(value: Json, level: int) -> Iterator[Sign]:
    if value is False and level == 0:
        yield Sign(_O.ERROR, "returned.false", "The tool returned false.")
    elif isinstance(value, dict) and level <= NESTING_MAX_LEVELS:
        yield from _object_signs({_plain_key(key): part for key, part in value.items()}, level)
    elif isinstance(value, list):
        yield from _list_signs(value, level)


def _plain_key(key: str) -> str:
    """`isError`, `is_error` and `IS-ERROR` are the same name."""
    return key.replace("_", "").replace("-", "").lower()


def _object_signs(fields: dict[str, Json], level: int) -> Iterator[Sign]:
    if not _FLAGS.isdisjoint(fields):
        yield from _flag_signs(fields)
    if not _ERRORS.isdisjoint(fields):
        yield from _error_signs(fields)
    yield from _status_signs(fields)
    if _PARTS.isdisjoint(fields):
        return  # the common case
    for name in _WRAPPERS:
        if name in fields:
            yield from _value_signs(fields[name], level + 1)
    for name in _LISTS:
        part = fields.get(name)
        if isinstance(part, list):
            yield from (_content_signs(part, level) if name == "content" else _list_signs(part, level + 1))


def _flag_signs(fields: dict[str, Json]) -> Iterator[Sign]:
    counted = False
    if not _OKS.isdisjoint(fields):
        for name in _OK_FLAGS:
            if name in fields and _is_no(fields[name]):
                yield Sign(_O.ERROR, f"flag.{name}-false", f"The answer says {name}: false.")
        counted = any(type(fields.get(name)) is int for name in _OK_FLAGS)
    for name in _FAIL_FLAGS:
        if name in fields and _is_yes(fields[name]):
            some = counted and type(fields[name]) is int
            yield Sign(_O.PARTIAL if some else _O.ERROR, f"flag.{name}", f"The answer says {name}.")


def _is_no(value: Json) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("false", "no", "0", "failed", "error")
    return value is False or (type(value) is int and value == 0)


def _is_yes(value: Json) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in ("", "false", "no", "0", "none", "null")
    return bool(value)


def _error_signs(fields: dict[str, Json]) -> Iterator[Sign]:
    for name in _ERROR_FIELDS:
        value = fields.get(name)
        if not _is_yes(value):
            continue
        partly = name == "errors" and any(_is_yes(fields.get(part)) for part in ("data", "results", "result"))
        status = _O.PARTIAL if partly else _O.ERROR
        message = value.get("message") if isinstance(value, dict) else value
        said = f": {one_line(message, 120)}" if isinstance(message, str) else "."
        yield Sign(status, f"field.{name}", f"The answer has {name}{said}")


def _status_signs(fields: dict[str, Json]) -> Iterator[Sign]:
    for name in () if _CODES.isdisjoint(fields) else _CODE_FIELDS:
        if name in fields and type(code := fields[name]) is int and 100 <= code <= 599:
            yield http_sign(code)
    for name in () if _STATUSES.isdisjoint(fields) else _STATUS_FIELDS:
        if name not in fields or not isinstance(said := fields[name], str) or len(said) > 64:
            continue
        word = said.strip().lower().replace(" ", "_").replace("-", "_")
        # A cancelled order ends as "cancelled": beside `ok: true` the word is no failure.
        confirmed = word in _CANCELLED and any(fields.get(flag) is True for flag in _OK_FLAGS)
        if word in _CANCELLED and not confirmed:
            yield Sign(_O.CANCELLED, f"status.{word}", f"The answer says {name}: {word}.")
        elif word in _WORDS:
            yield Sign(_WORDS[word], f"status.{word}", f"The answer says {name}: {word}.")


def _list_signs(items: list[Json], level: int) -> Iterator[Sign]:
    """Results of parts: all failed is an error, some failed is partial."""
    parts = [item for item in items[:ITEMS_MAX] if isinstance(item, dict)]
    failed = sum(1 for part in parts if _part_failed(part, level + 1))
    if failed and failed == len(parts):
        yield Sign(_O.ERROR, "parts.failed", f"All {failed} parts of the answer say that they failed.")
    elif failed:
        yield Sign(_O.PARTIAL, "parts.mixed", f"{failed} of {len(parts)} parts of the answer failed.")


def _part_failed(part: dict[str, Json], level: int) -> bool:
    """Only flags and error fields count: a listed record may have had any status before."""
    fields = {_plain_key(key): value for key, value in part.items()}
    if level > NESTING_MAX_LEVELS:
        return False
    found = (*_flag_signs(fields), *_error_signs(fields))
    return any(sign.status in (_O.ERROR, _O.PARTIAL) for sign in found)


def _content_signs(content: list[Json], level: int) -> Iterator[Sign]:
    """Content blocks of a Model Context Protocol result: JSON text, or text beginning with an error."""
    for block in content[:ITEMS_MAX]:
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str):
            continue
        value = _object_in(text)
        if value is not None:
            yield from _value_signs(value, level + 1)
        elif (said := text_sign(text)) is not None:
            yield said


def _object_in(text: str) -> dict[str, Json] | None:
    """The JSON object in a text, or None. The first character excludes most other texts."""
    if not text.lstrip(" \t\r\n").startswith("{"):
        return None
    try:
        value = parse_json(text, bytes_max=EVIDENCE_MAX_BYTES)
    except CanonError:
        return None
    return value if isinstance(value, dict) else None
