"""Judge the claims of watched tools by two readings around each call. Pure over the calls of one ledger.

Called by `report`. No contract states the intended effect, so a claim is contradicted only under four conditions. The
tool claimed success in words of calls with an effect. The state is the same before and after. No other call overlapped.
The same reading tool has shown such an effect of this tool, with the same switches, in another call: a value of the
arguments appeared, or went. Every other call is counted as changed, as unchanged, or as not judged with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field
from enum import StrEnum
from html import unescape
from typing import Final

from readback.canon import Json, json_text
from readback.canon.frozen import dataclass
from readback.canon.unicode_forms import normalized
from readback.shadow.pairs import NAMING_WORDS, removes, words_of

NEEDLE_MIN_CHARACTERS: Final = 3
"""A shorter value may stand anywhere by chance."""
NEEDLE_MAX_CHARACTERS: Final = 60
VALUES_MAX: Final = 64
"""Most values of one call that are searched."""
ITSELF: Final = "(the object)"
"""The path of the object itself, where a keyed reading finds or does not find the object."""
SWITCH_WORDS: Final = frozenset({"action", "command", "method", "mode", "op", "operation", "verb"})
"""Words in the names of arguments that select what a tool does. Every argument with a truth value is a switch, too."""
PAGE_MIN: Final = 5
"""A list with fewer entries is no cut page."""
_ENTRY: Final = re.compile(r"[\n,;]")
_BLANK: Final = re.compile(r"\s")
_LITERALS: Final = frozenset({"0", "false", "none", "null", "true"})
"""Words of an answer that no state explains."""
_PATH: Final = re.compile(r"""[^\s"'`,;(){}<>\[\]]*[/\\@][^\s"'`,;(){}<>\[\]]*""")
_TOKEN: Final = re.compile(r"\w+")
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


class Result(StrEnum):
    """The result of one watched call."""

    CHANGED = "changed"
    """The reading differs before and after."""
    CONTRADICTED = "contradicted"
    """The tool claimed success, and nothing changed where the reading shows such changes."""
    UNCHANGED = "unchanged"
    """Nothing changed, and the asked values stand in the state already."""
    FAILED = "failed"
    """The tool reported a failure."""
    NOT_JUDGED = "not_judged"
    """The readings decide nothing; the reason is beside the result."""


@dataclass(frozen=True, slots=True)
class Look:
    """The two answers of one reading tool around a call.

    `before` and `after`: the answer, or None for none. `steady`: two readings before the call were equal. `writes`: the
    tool's own hints contradict reading. `stated`: the operator named the pair.
    """

    tool: str
    arguments: Mapping[str, Json]
    before: Mapping[str, Json] | None
    after: Mapping[str, Json] | None
    steady: bool = True
    stated: bool = False
    writes: bool = False
    reason: str = ""
    """Why an answer is missing."""

    @property
    def keyed(self) -> bool:
        """Whether the reading names one object."""
        return bool(self.arguments)


@dataclass(frozen=True, slots=True)
class WatchedCall:
    """One recorded call with its readings. `claims`: the tool reported success."""

    id: str
    at_us: int
    server: str
    tool: str
    arguments: Mapping[str, Json] | None
    """None where the arguments were too large for the record."""
    claims: bool
    answered: bool
    answer: str
    looks: tuple[Look, ...] = ()
    overlapped: bool = False
    erased: bool = False
    """The payloads were erased."""


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call with its result. `read`: the deciding reading tool; `late`: the change was seen by a later reading."""

    watched: WatchedCall
    result: Result
    reason: str
    read: str = ""
    late: bool = False

    @property
    def failed_and_changed(self) -> bool:
        """Whether the tool reported a failure, and the state changed: a repetition may act twice."""
        return self.result is Result.FAILED and bool(self.read)


@dataclass(slots=True)
class _Sights:
    """The effects of one writing tool in the answers of one reading tool, by argument path."""

    appeared: set[str]
    went: set[str]
    hidden: set[tuple[str, str]]
    """Arguments and values that the state did not show after a change: stored in another form."""
    largest: int = 0
    """Size of the largest state in which a change was seen. A larger state may be cut short by the reading tool."""
    entries: int = 0
    """Most entries of a state in which a change was seen."""
    growth: int = 0
    """Fewest entries by which a state grew; 0 if no state grew."""
    words: set[str] = field(default_factory=set)
    """Words in the tool's answers to calls with an effect."""
    common: set[str] | None = None
    """Words in each such answer, without the words of the arguments."""


Key = tuple[str, str, str, frozenset[tuple[str, Json]]]


def judge(calls: Sequence[WatchedCall]) -> list[JudgedCall]:
    """Return the result of each call, in the order of the calls."""
    sights = _sights(calls)
    judged = [_judged(call, sights) for call in calls]
    judged = [_late(each, calls[place + 1 :]) for place, each in enumerate(judged)]
    late = {(each.watched.server, each.watched.tool, each.read) for each in judged if each.late}
    return [_open(each, calls[place + 1 :], late) for place, each in enumerate(judged)]


def _judged(call: WatchedCall, sights: Mapping[Key, _Sights]) -> JudgedCall:
    reason = _obstacle(call)
    if reason:
        return JudgedCall(call, Result.NOT_JUDGED, reason)
    usable = [look for look in call.looks if not _fault(look)]
    if not usable:
        return JudgedCall(call, Result.NOT_JUDGED, _fault(call.looks[0]), call.looks[0].tool)
    changed = next((look for look in usable if look.before != look.after), None)
    if not call.claims:
        said = "The tool reported a failure, and the state changed." if changed else "The tool reported a failure."
        return JudgedCall(call, Result.FAILED, said, changed.tool if changed else "")
    if changed is not None:
        return JudgedCall(call, Result.CHANGED, "The state read after the call differs.", changed.tool)
    found = [_unchanged(call, look, sights.get(_key(call, look))) for look in usable]
    order = (Result.UNCHANGED, Result.CONTRADICTED, Result.NOT_JUDGED)
    return min(found, key=lambda each: order.index(each.result))


def _obstacle(call: WatchedCall) -> str:
    """Return why no reading of the call can count, or ""."""
    if not call.answered:
        return "The server gave no answer: the effect of the call is unknown."
    if call.erased:
        return "The arguments, the answer and the readings were erased."
    if not call.looks:
        return "No allowed reading tool fits this tool."
    if call.overlapped:
        return "Another call of the same server overlapped."
    return ""


def _fault(look: Look) -> str:
    """Return why a reading does not count, or ""."""
    if look.writes:
        return f"The reading tool {look.tool!r} says of itself that it writes."
    if look.before is None or look.after is None:
        return look.reason or f"The reading tool {look.tool!r} gave no answer."
    if not look.steady:
        return f"Two readings of {look.tool!r} differ with no call between: it changes by itself, or it writes."
    return ""


def _unchanged(call: WatchedCall, look: Look, seen: _Sights | None) -> JudgedCall:
    """Judge a claimed success without a change, by one reading."""
    assert look.after is not None
    if is_hashed(look.after):
        said = f"Nothing changed, and the answer of {look.tool!r} is too large for the record to search it."
        return JudgedCall(call, Result.NOT_JUDGED, said, look.tool)
    text = text_of(look.after)
    here = _visible(call, look, text)
    appears = {path for path in here if seen is not None and path in seen.appeared}
    goes = {path for path in here if seen is not None and path in seen.went} - appears
    asked_values = {(path, value) for path, value in values_of(call.arguments or {}) if path in appears}
    if seen is not None and asked_values & seen.hidden:
        said = f"Nothing changed, and {look.tool!r} has shown a change by the same values without these values."
        return JudgedCall(call, Result.NOT_JUDGED, said, look.tool)
    if not appears and not goes and look.keyed and seen is not None:
        here[ITSELF] = [look.after.get("isError") is not True]
        appears, goes = {ITSELF} & seen.appeared, {ITSELF} & (seen.went - seen.appeared)
    if not appears and not goes and look.stated and not removes(call.tool) and not switches_of(call):
        appears = {path for path in here if path != ITSELF}
    if not appears and not goes:
        said = f"Nothing changed, and {look.tool!r} has never shown a change made by such a call of this tool."
        return JudgedCall(call, Result.NOT_JUDGED, said, look.tool)
    asked = _as_asked(here, appears) if appears else _as_asked({path: _inverse(here[path]) for path in goes}, goes)
    if asked is True:
        said = "Nothing changed; the state is as the call asks already."
        return JudgedCall(call, Result.UNCHANGED, said, look.tool)
    if asked is None:
        said = f"Nothing changed; {look.tool!r} shows a part of the asked values."
        return JudgedCall(call, Result.NOT_JUDGED, said, look.tool)
    if not look.keyed and seen is not None and len(text) > seen.largest:
        said = f"The state is larger than any in which {look.tool!r} has shown a change; the reading may be cut."
        return JudgedCall(call, Result.NOT_JUDGED, said, look.tool)
    doubt = "" if seen is None else _doubt(call, look, seen, appears)
    if doubt:
        return JudgedCall(call, Result.NOT_JUDGED, f"Nothing changed, and {doubt}", look.tool)
    named = ", ".join(sorted(appears or goes))
    said = f"The tool said done. {look.tool!r} shows the same state as before, " + (
        f"without the asked {named}." if appears else f"and {named} is still there."
    )
    return JudgedCall(call, Result.CONTRADICTED, said, look.tool)


def _doubt(call: WatchedCall, look: Look, seen: _Sights, appears: Set[str]) -> str:
    """Return why an honest server may have changed nothing that the reading shows, or ""."""
    state = look.after or {}
    if seen.common is not None:
        words = answer_words(call.answer)
        explained = answer_words(text_with_keys((call.arguments, state))) - _LITERALS
        if words - explained - seen.words or seen.common - words:
            return f"the answer of {call.tool!r} differs in words from its answers to calls with an effect."
    entries = entries_of(state)
    a_page = seen.growth and (entries + 1) // seen.growth >= PAGE_MIN and entries >= seen.entries
    if appears - {ITSELF} and a_page:
        return f"{look.tool!r} has shown no change in a longer list; the reading may end after a page."
    return ""


def switches_of(call: WatchedCall) -> frozenset[tuple[str, Json]]:
    """Return the arguments that select what a tool does: truth values, and texts such as `mode`.

    A trial run claims success and changes nothing. So a call counts only beside calls with the same switches.
    """
    return frozenset(_switches(call.arguments or {}, ""))


def _switches(value: object, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _switches(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _switches(each, path)
    elif isinstance(value, bool) or (
        isinstance(value, str) and words_of(path.rpartition(".")[2]) & SWITCH_WORDS and not _BLANK.search(value)
    ):
        yield path, value


def _visible(call: WatchedCall, look: Look, text: str) -> dict[str, list[bool]]:
    """Return for each argument path whether each value stands in the state. Keys of the reading are left out."""
    found: dict[str, list[bool]] = {}
    for path, needle in values_of(call.arguments or {}):
        if not _is_key(path, look):
            found.setdefault(path, []).append(needle in text)
    return found


def _inverse(seen: list[bool]) -> list[bool]:
    return [not each for each in seen]


def _as_asked(here: Mapping[str, list[bool]], paths: Set[str]) -> bool | None:
    """Return whether the state is as asked: True for every value, False for none, None for a part.

    A value that names an object decides alone against the call. A category may stand there for other objects.
    """
    if all(all(here[path]) for path in paths):
        return True
    naming = {path for path in paths if words_of(path.rpartition(".")[2]) & NAMING_WORDS}
    return None if any(any(here[path]) for path in naming or paths) else False


def _is_key(path: str, look: Look) -> bool:
    return path.partition(".")[0] in look.arguments


def _sights(calls: Sequence[WatchedCall]) -> dict[Key, _Sights]:
    """Collect what each pair has shown, over all calls with a claimed success."""
    found: dict[Key, _Sights] = {}
    for call in calls:
        if _obstacle(call) or not call.claims or call.arguments is None:
            continue
        for look in call.looks:
            if _fault(look) or look.before == look.after:
                continue
            assert look.before is not None
            assert look.after is not None
            if is_hashed(look.before) or is_hashed(look.after):
                continue
            _add(found.setdefault(_key(call, look), _Sights(set(), set(), set())), call, look)
    return found


def _add(seen: _Sights, call: WatchedCall, look: Look) -> None:
    """Add what one change has shown."""
    assert look.before is not None
    assert look.after is not None
    before, after = text_of(look.before), text_of(look.after)
    seen.largest = max(seen.largest, len(after))
    effect = False
    for path, needle in values_of(call.arguments or {}):
        if not _is_key(path, look):
            effect |= _note(seen, path, needle in before, needle in after)
            if needle not in before and needle not in after:
                seen.hidden.add((path, needle))
    errors = [state.get("isError") is True for state in (look.before, look.after)]
    if look.keyed:
        effect |= _note(seen, ITSELF, not errors[0], not errors[1])
    if not effect:
        return
    entries = entries_of(look.after)
    growth = entries - entries_of(look.before)
    seen.entries = max(seen.entries, entries)
    if growth > 0 and not any(errors):
        seen.growth = min(seen.growth or growth, growth)
    words = answer_words(call.answer)
    own = words - answer_words(text_with_keys((call.arguments, look.before, look.after)))
    seen.words |= words
    seen.common = own if seen.common is None else seen.common & own


def _note(seen: _Sights, path: str, before: bool, after: bool) -> bool:
    """Note whether a value appeared or went, and return whether one of both happened."""
    if after and not before:
        seen.appeared.add(path)
    elif before and not after:
        seen.went.add(path)
    return before != after


def _key(call: WatchedCall, look: Look) -> Key:
    return call.server, call.tool, look.tool, switches_of(call)


def _late(judged: JudgedCall, later: Sequence[WatchedCall]) -> JudgedCall:
    """Withdraw a contradiction where a later reading, before any repetition, shows the asked values."""
    call = judged.watched
    if judged.result is not Result.CONTRADICTED or call.arguments is None:
        return judged
    look = next(each for each in call.looks if each.tool == judged.read)
    for other in later:
        if other.server != call.server:
            continue
        for each in other.looks:
            same = each.tool == look.tool and each.arguments == look.arguments and each.before is not None
            if same and each.before != look.after and _shows(each.before, call.arguments):
                said = "The state showed no change at first; a later reading shows the asked values."
                return JudgedCall(call, Result.CHANGED, said, look.tool, late=True)
        if other.tool == call.tool and other.arguments == call.arguments:
            break  # a repetition: what is seen from here on may be its effect
    return judged


def _open(judged: JudgedCall, later: Sequence[WatchedCall], late: Set[tuple[str, str, str]]) -> JudgedCall:
    """Withdraw a contradiction of a tool with a late effect in another call, as long as no later reading is there."""
    call = judged.watched
    if judged.result is not Result.CONTRADICTED or (call.server, call.tool, judged.read) not in late:
        return judged
    read = next(each for each in call.looks if each.tool == judged.read)
    looks = (each for other in later if other.server == call.server for each in other.looks)
    if any(each.tool == read.tool and each.arguments == read.arguments and each.before is not None for each in looks):
        return judged
    said = f"Nothing changed yet. In another call the effect of {call.tool!r} came after the reading."
    return JudgedCall(call, Result.NOT_JUDGED, said, read.tool)


def is_hashed(state: Mapping[str, Json]) -> bool:
    """Return whether an answer stands in the record by size and hash alone, since it is too large."""
    return state.keys() >= {"bytes", "sha256"} and "content" not in state


def _shows(state: Mapping[str, Json] | None, arguments: Mapping[str, Json]) -> bool:
    if state is None or is_hashed(state):
        return False
    text = text_of(state)
    needles = [needle for _, needle in values_of(arguments)]
    return bool(needles) and all(needle in text for needle in needles)


# --- values and states as text ---


def values_of(value: Json | Mapping[str, Json], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the paths and searchable forms of the texts and numbers of some arguments, at most VALUES_MAX."""
    for count, found in enumerate(_values(value, path)):
        if count >= VALUES_MAX:
            return
        yield found


def _values(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _values(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, path)  # an element's place is no part of its name
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        needle = needle_of(value if isinstance(value, str) else json_text(value))
        if len(needle) >= NEEDLE_MIN_CHARACTERS:
            yield path, needle


def needle_of(text: str) -> str:
    """Return the first line of a text that is not blank, folded and cut, for a search in a state."""
    line = next((each for each in text.splitlines() if each.strip()), "")
    return folded(line)[:NEEDLE_MAX_CHARACTERS]


def folded(text: str) -> str:
    """Return the letters and digits of a text, without case, escapes of JSON and HTML, blanks and marks.

    A server may store a value in another spelling. So a spelling alone makes no value absent.
    """
    plain = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text.replace("\\n", " ").replace("\\t", " "))
    return "".join(each for each in normalized("NFKC", unescape(plain)).casefold() if each.isalnum())


def text_of(state: Mapping[str, Json]) -> str:
    """Return the searchable text of a reading tool's answer."""
    return folded("\n".join(_texts(state)))


def entries_of(state: Mapping[str, Json]) -> int:
    """Return a number that grows with the entries of a reading tool's answer."""
    return sum(len(_ENTRY.findall(each)) for each in _texts(state))


def answer_words(text: str) -> set[str]:
    """Return the words of a tool's answer. Paths, addresses and numbers differ in each answer; a 0 counts."""
    words = _TOKEN.findall(_PATH.sub(" ", text.casefold()))
    return {word for word in words if word == "0" or not any(map(str.isdigit, word))}


def text_with_keys(value: object) -> str:
    """Return the texts and the keys of plain data."""
    if isinstance(value, Mapping):
        return " ".join(f"{key} {text_with_keys(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(text_with_keys, value))
    return value if isinstance(value, str) else ""


def _texts(value: Json | Mapping[str, Json]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json_text(value)
