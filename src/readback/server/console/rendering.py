"""Pages from templates. Every value from a ledger is inert: escaped, bounded, and without control characters.

The environment's `finalize` passes each printed text through `views.text.safe` before the escaping of markup. So a
template cannot print a raw value, and prints no markup but its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from readback.canon import Json, json_text
from readback.canon.frozen import dataclass
from readback.domain.state import EXIT_FAILED, EXIT_VERIFIED
from readback.ports.storage.store import Projection
from readback.server.access.principal import Right
from readback.views.labels import state_label
from readback.views.outcome_text import exit_of, plain, shown_verdict
from readback.views.text import BAD, OK, OPEN, US, safe, span, value

FOLDER: Final = Path(__file__).parent
PRINTED_MAX_CHARACTERS: Final = 1_500
BLOCK_MAX_CHARACTERS: Final = 4_000
BLOCK_LINES_MAX: Final = 120
ZONE_DEFAULT: Final = "UTC"
MARK_TEXT: Final = {OK: "✓", BAD: "✗", OPEN: "?", "none": "·"}
MARK_WORD: Final = {OK: "verified", BAD: "not as intended", OPEN: "open", "none": "nothing to verify"}


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The frame of a page: the caller, the time zone, the CSRF token, and whether the page is a file."""

    tenant: str = ""
    principal: str = ""
    rights: frozenset[Right] = frozenset()
    csrf: str = ""
    zone: str = ZONE_DEFAULT
    path: str = "/"
    position: int = 0
    offline: bool = False
    signed_in: bool = False

    def may(self, right: str) -> bool:
        """Whether the caller has a right."""
        return right in self.rights

    def when(self, at_us: int) -> Markup:
        """A time in the page's zone, to the second, with the exact time in UTC for programs."""
        if at_us <= 0:
            return Markup("-")
        try:
            at = datetime.fromtimestamp(at_us // US, UTC)
            shown = at.astimezone(zone_named(self.zone))
        except (OverflowError, ValueError, OSError):
            return escape(str(at_us))
        exact = f"{at:%Y-%m-%dT%H:%M:%S}.{at_us % US // 1000:03d}Z"
        offset = "UTC" if self.zone == ZONE_DEFAULT else f"{shown:%Z}"
        return Markup('<time datetime="{}" title="{}">{} {}</time>').format(
            exact, exact, f"{shown:%Y-%m-%d %H:%M:%S}", offset
        )


def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name; UTC for an unknown name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo(ZONE_DEFAULT)


def is_zone(name: str) -> bool:
    """Whether a time zone of this name exists."""
    return zone_named(name).key == name


def page(name: str, frame: PageFacts, **values: Any) -> str:
    """Return a page. `values`: the variables of the template."""
    return _environment().get_template(name).render(page=frame, **values)


@cache
def asset(name: str) -> str:
    """The text of a static file."""
    return (FOLDER / "static" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_inert,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {"plain": plain, "json": value, "block": block, "span": span}
    environment.globals |= {
        "mark": mark,
        "row_mark": row_mark,
        "row_state": row_state,
        "row_verdict": shown_verdict,
        "style_text": lambda: Markup(asset("console.css")),
    }
    return environment


def _inert(printed: object) -> object:
    """A printed text on one line, bounded, with control and direction characters by number."""
    if isinstance(printed, Markup):
        return printed
    return safe(printed, PRINTED_MAX_CHARACTERS) if isinstance(printed, str) else "" if printed is None else printed


def block(shown: Json) -> Markup:
    """A JSON value or a text in several lines, each line inert, cut to BLOCK_MAX_CHARACTERS."""
    text = shown if isinstance(shown, str) else json_text(shown, indent=2, ensure_ascii=False)
    lines = text[: BLOCK_MAX_CHARACTERS + 1].split("\n")
    kept = [safe(line, BLOCK_MAX_CHARACTERS) for line in lines[:BLOCK_LINES_MAX]]
    cut = len(text) > BLOCK_MAX_CHARACTERS or len(lines) > BLOCK_LINES_MAX
    if cut:
        kept.append(f"… cut: {len(text)} characters in total")
    return Markup("\n").join(kept)


def mark(kind: str) -> Markup:
    """A mark with a word for screen readers. The shape differs too, so colour is not needed."""
    return Markup('<span class="mark {}" aria-hidden="true">{}</span><span class="unseen">{}</span>').format(
        kind, MARK_TEXT[kind], MARK_WORD[kind]
    )


def sign_of(held: Projection) -> str:
    """The mark of a listed action."""
    code = exit_of(held)
    return OK if code == EXIT_VERIFIED else BAD if code == EXIT_FAILED else OPEN


def row_mark(held: Projection) -> Markup:
    """The mark of a listed action, as markup."""
    return mark(sign_of(held))


def row_state(held: Projection) -> str:
    """The label of a listed action's state."""
    return state_label(held.state, standing=sign_of(held) == OK, hold=held.hold)


def as_attribute(values: Mapping[str, Json]) -> Markup:
    """Values for a `data-` attribute: whole, as escaped JSON in ASCII."""
    return escape(json.dumps(values, ensure_ascii=True))
