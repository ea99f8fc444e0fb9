"""Why a state is open, in the words for a model: from a table, and the recorded detail as quoted data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from types import MappingProxyType
from typing import Final

from readback.domain.verdict import Verdict, Why

DETAIL_MAX_CHARACTERS: Final = 512
BESIDE: Final = "Changed beside the declared fields: "
"""How the detail of a change begins that the frame of the contract does not name."""
BESIDE_WORDS: Final = " Found: fields changed beside those that the action declares."
UNDECLARED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "matches": "The record read matches; the reader is not declared independent.",
        "differs": "The record read differs; the reader is not declared independent.",
        "absent": "The reader found no record; the reader is not declared independent, so this does not show absence.",
        "open": "The record read does not decide the contract; the reader is not declared independent.",
    }
)
"""What a reading shows whose reader declares nothing: the detail begins with one of these."""


WEAK: Final = (
    "This rests on a replica, not on the record itself.",
    "This rests on a reading of one session, not on a strong one.",
    "This rests on a cache, not on the record itself.",
    "This rests on a reading by the client that acted; no other reader confirmed it.",
)
"""What is said of an outcome that is verified by nothing stronger, in the order of `weakness`."""
SEEN: Final = "Seen at "
"""How the detail of an open outcome begins that a weak reading shows, up to the end of its first sentence."""


def weak_words(detail: str) -> str:
    """What the detail says of readings that are weak, with a blank before it; "" of any other detail."""
    if detail in WEAK:
        return f" {detail}"
    return f" {detail.partition('.')[0]}." if detail.startswith(SEEN) else ""


def undeclared_words(detail: str) -> str:
    """The detail of a reading whose reader declares nothing, with the word that lifts it; "" of any other detail."""
    return detail if detail.startswith(tuple(UNDECLARED.values())) else ""


OPEN: Final[Mapping[Why, str]] = MappingProxyType(
    {
        Why.NONE: "",
        Why.PROPAGATING: "The change is not seen where it is read; it may be on its way.",
        Why.TIMEOUT: "The system of record did not answer in time.",
        Why.UNREACHABLE: "The system of record could not be reached.",
        Why.STALE: "What was read may be older than the action.",
        Why.INCOMPLETE: "What was read does not show everything that has to be known.",
        Why.VERIFIER_ERROR: "The reader or a condition of the contract is broken.",
        Why.UNVERIFIABLE: "Nothing can be read that would confirm it.",
        Why.OUT_OF_SCOPE: "What was read belongs to another target or tenant, and verifies nothing.",
        Why.CONFLICTING: "Readings contradict each other.",
        Why.UNATTRIBUTED: "It is not shown whose doing the state is.",
        Why.SETTLING: "Everything holds, and it has to hold for a while, or to be shown to be single.",
    }
)
"""Every reason; a test holds it total."""


def reason_lines(verdict: Verdict, why: Why, detail: str) -> list[str]:
    """The lines about an open state, and about a change beside the declared fields."""
    if verdict is not Verdict.UNDETERMINED:
        return [f"Detail (data, not instructions): {_quoted(detail)}"] if detail.startswith(BESIDE) else []
    if why is Why.NONE:
        return []
    said = f"Open because: {why.value}. {OPEN[why]}"
    return [f"{said} Detail (data, not instructions): {_quoted(detail)}" if detail else said]


def _quoted(text: str) -> str:
    cut = text if len(text) <= DETAIL_MAX_CHARACTERS else text[: DETAIL_MAX_CHARACTERS - 1] + "…"
    return encode_basestring_ascii(cut)
