"""Guesses from the words of a tool's name: tables, and short lookups. Every guess comes with a reason.

Called by `draft`. A hint may raise a guess, and lowers nothing: a tool with a read-only hint and the name of a change
is drafted like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.drafting.tools import Tool
from readback.domain.kind import Kind
from readback.domain.side_effect import SideEffect


def words_of(text: str) -> frozenset[str]:
    """Return the words of a table's row."""
    return frozenset(text.split())


READING: Final = words_of(
    "get list ls read search find fetch show describe view count lookup check status diff head stat info exists "
    "cat whoami ping inspect preview browse select summarize analyze validate verify compare tree explain"
)
_JOINING: Final = words_of("and or then")
_FILLING: Final = words_of("and or then to from in into of on by with the a an for")
CHANGING: Final = words_of(
    "abort activate allow apply archive assign attach ban block build cancel cherry claim clean clone commit compact "
    "compile connect convert deactivate deploy detach disconnect dismiss drain evict execute expire export fill flip "
    "flush follow format generate grant import install invalidate join kick kill launch leave link load lock migrate "
    "mute pause pick pin pop promote prune pull push queue rebase rebuild redo refresh regenerate reindex release "
    "reload renew replay restart resume retry revert revoke rollback rotate run schedule seed shuffle shutdown sign "
    "snapshot squash star start stash stop subscribe swap switch terminate toggle trigger unarchive unassign unblock "
    "undo unfollow unlink unlock unmute unpin unsubscribe upgrade vacuum wipe"
)
"""Verbs of a change without a definite kind. After a reading verb, such a word names the object."""
_KINDS: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.DELETE: words_of("delete remove drop destroy purge clear trash unlink erase rm truncate uninstall"),
    Kind.CREATE: words_of("create add insert new make register open fork upload mkdir init book schedule"),
    Kind.APPEND: words_of("append comment reply annotate record enqueue"),
    Kind.ADJUST: words_of("increment decrement transfer charge pay refund deposit withdraw adjust credit"),
    Kind.SEND: words_of("send email mail publish notify post message invite submit tweet broadcast"),
    Kind.SET: words_of(
        "set update write edit save put move rename replace modify patch change enable disable merge assign close "
        "copy commit checkout reset apply upsert configure mark approve reject restore overwrite sync"
    ),
}
_CLASSES: Final[tuple[tuple[SideEffect, frozenset[str]], ...]] = (
    (
        SideEffect.CRITICAL_MUTATION,
        words_of(
            "deploy rollout grant revoke permission permissions role roles policy production prod payroll firewall "
            "terminate shutdown iam"
        ),
    ),
    (
        SideEffect.HIGH_RISK_EXTERNAL,
        words_of(
            "pay payment charge refund transfer withdraw purchase buy invoice send email mail sms publish post tweet "
            "notify message invite broadcast call"
        ),
    ),
    (
        SideEffect.MEDIUM_RISK_WRITE,
        words_of("delete remove drop destroy purge truncate erase overwrite reset merge execute run eval sql"),
    ),
)
"""Ordered from the most serious class down: the first class with a matching word applies."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A proposal ("" for none), and the reason."""

    value: str
    why: str


def only_reads(tool: Tool, prefixes: Collection[tuple[str, ...]] = ()) -> bool:
    """Return whether the tool counts as read-only. `prefixes`: the common prefixes of this server's names, from
    `prefixes_of`. Without a hint, no other word may precede the reading verb.
    """
    first = tool.words[:1]
    if tool.hints.read_only is True:
        if first and first[0] in READING:
            return _verb(tool) is None
        named = (*_KINDS.values(), CHANGING)
        return not any(first and first[0] in words for words in named)
    if tool.hints.read_only is False or tool.hints.destructive is True:
        return False
    told = READING | {"log"} if tool.words[-1:] == ("log",) else READING
    at = next((at for at, word in enumerate(tool.words) if word in told), None)
    if at is None or "and" in tool.words or _verb(tool) is not None:
        return False
    before = tool.words[:at]
    return not before or (before in prefixes and not CHANGING.intersection(before))


def prefixes_of(tools: Iterable[Tool]) -> frozenset[tuple[str, ...]]:
    """Return the common first words of several names, such as a service's name; these are no verbs."""
    begun = Counter(tool.words[:at] for tool in tools for at in range(1, len(tool.words)))
    return frozenset(words for words, several in begun.items() if several > 1)


def kind_of(tool: Tool) -> Guess:
    """Guess the operation's effect on its target."""
    found = _verb(tool)
    if found is None:
        return Guess("", "No word of its name says what it does.")
    kind, word = found
    if kind in (Kind.CREATE, Kind.APPEND):
        article = "an" if kind is Kind.APPEND else "a"
        why = (
            f"{word!r} is {article} {kind.value}; but that is verified only where a reading shows whose doing it is "
            "(`find`, `lookup`, `identity.stamp`), so `set`: it is there as it was asked for."
        )
        return Guess(Kind.SET.value, why)
    return Guess(kind.value, f"By {word!r} in its name.")


def class_of(tool: Tool) -> Guess:
    """Guess the side-effect class."""
    words = set(tool.words)
    by_name = next(((side, sorted(words & known)[0]) for side, known in _CLASSES if words & known), None)
    side, why = (SideEffect.LOW_RISK_INTERNAL, "Nothing in its name or its hints asks for more.")
    if by_name is not None:
        side, why = by_name[0], f"By {by_name[1]!r} in its name."
    for raised, said in _hinted(tool):
        if raised.rank > side.rank:
            side, why = raised, said
    return Guess(side.value, why)


def _hinted(tool: Tool) -> list[tuple[SideEffect, str]]:
    found = []
    if tool.hints.destructive is True:
        found.append((SideEffect.MEDIUM_RISK_WRITE, "The server says that it may destroy something."))
    if tool.hints.open_world is True:
        found.append((SideEffect.HIGH_RISK_EXTERNAL, "The server says that it acts on the world outside."))
    return found


def _verb(tool: Tool) -> tuple[Kind, str] | None:
    """Return the first verb with a kind. A reading verb ends the search, unless a joining word follows."""
    words = iter(tool.words)
    for word in words:
        if word in READING and not any(each in _JOINING for each in words):
            return None
        for kind, known in _KINDS.items():
            if word in known:
                return kind, word
    return None


def nouns(tool: Tool) -> tuple[str, ...]:
    """Return the words of the name besides the verb; in the singular, as far as an "s" shows."""
    verbs = READING.union(*_KINDS.values())
    found = [word for word in tool.words if word not in verbs | _FILLING] or list(tool.words[1:])
    return tuple(map(_singular, found))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
