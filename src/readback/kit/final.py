"""The check of an agent's final answer: pass the answer on, or correct the model, or replace the answer.

A chat answer is free text, and no check can tell which sentence claims an effect. So the answer passes only where
nothing of the run is open or undone, or where each item cites or stands under "## Open", or where the answer consists
of Readback's own sentences. Everything else is replaced by the reconciled state.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final, Literal

from readback.canon.frozen import dataclass
from readback.client.client import Readback
from readback.client.operations.grounding import CANNOT_TELL
from readback.domain.belief.entry import Item
from readback.domain.belief.run import Belief
from readback.domain.grounding.report import ReportCheck
from readback.domain.outcome.planning import Planning
from readback.domain.outcome.reporting import quoted
from readback.domain.verification.observation_signs import one_line
from readback.errors import CitationError
from readback.kit.boundary import guarded

Mode = Literal["replace", "append", "cite", "off"]
MODES: Final = ("replace", "append", "cite", "off")
FAULTS_TOLD_MAX: Final = 20
CITED_MAX_CHARACTERS: Final = 120
CITATIONS_TOLD_MAX: Final = 20
MESSAGE_MAX_CHARACTERS: Final = 4_096
_LEAD: Final = "[readback] Your answer was not passed on to the user. It may state only what Readback has reconciled."
_WAYS: Final = (
    "Answer again. Report each action in the sentence under `Tell the user only`, word for word; or cite each verified"
    " item, and put everything else under a heading `## Open`."
)
_UNREADABLE: Final = "The ledger cannot be read now. Say to the user only: "
_NO_BELIEF: Final = "[task state] The state of the run cannot be shown here. Count on nothing. Tell the user only: "
_SPACE: Final = re.compile(r"\s+")
_MARKS: Final = re.compile(r"^[\s\-*•.:;,#>]*$")
_CITATION: Final = re.compile(r"\[readback:[^\s\[\]]+\]")


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The result of a check. `ok`: pass `text` on, which then is the answer as it was.

    Where not `ok`, give `correction` to the model once or twice, and then show `text` to the user in place of the
    answer. `text` is always safe to show.

    Example:
        >>> from readback.kit import Kit
        >>> with Kit.open("memory:") as kit:
        ...     kit.final("Good morning.", run="chat-1").ok
        True
    """

    ok: bool
    text: str
    correction: str = ""


class Corrections:
    """The checks of one final answer, with a limited number of corrections. Made by `Kit.corrections`.

    Example:
        >>> from readback.kit import Kit
        >>> with Kit.open("memory:") as kit:
        ...     answer = kit.corrections(1, run="chat-1").check("Good morning.")
        >>> answer.ok, answer.correction
        (True, '')
    """

    def __init__(
        self, most: int, check: Callable[[str], FinalAnswer], acheck: Callable[[str], Awaitable[FinalAnswer]]
    ) -> None:
        self._left, self._check, self._acheck = most, check, acheck

    def check(self, text: str) -> FinalAnswer:
        """Check the next version of the answer. Without a `correction` in the result, show its `text`."""
        return self._counted(self._check(text))

    async def acheck(self, text: str) -> FinalAnswer:
        """Check the next version of the answer without blocking the event loop; see `check`."""
        return self._counted(await self._acheck(text))

    def _counted(self, found: FinalAnswer) -> FinalAnswer:
        self._left -= 1
        return found if self._left >= 0 else replace(found, correction="")


def checked(client: Readback, text: str, run: str, mode: Mode, about: Collection[str] | None) -> FinalAnswer:
    """Check an answer of a run. `about`: the actions of this answer; None for every action of the run."""
    if mode == "off":
        return FinalAnswer(True, text)
    unread = FinalAnswer(False, CANNOT_TELL, f"{_UNREADABLE}{CANNOT_TELL}")
    return guarded(lambda: _judged(client, text, run, mode, about), lambda _: unread)


def _judged(client: Readback, text: str, run: str, mode: Mode, about: Collection[str] | None) -> FinalAnswer:
    whole = client.belief(run)
    belief = whole if about is None else _narrowed(whole, frozenset(about))
    open_ = [
        each for each in (*belief.unresolved, *belief.not_done) if not (each.mode and each.attempted)
    ]  # shadow rewords no answer
    found = client.check_report(text, run, every=mode == "cite" and bool(whole.entries))
    sagas = any(each.rule is not Planning.CONTINUE for each in belief.groups)
    clear = not open_ and not sagas
    if found.passed and (clear or mode == "cite"):
        return FinalAnswer(True, text)
    if not clear and (_cites_all(client, text, run) or (not sagas and _repeats(text, belief, open_, mode))):
        return FinalAnswer(True, text)
    shown = f"{text.rstrip()}\n\n{belief.message}" if mode == "append" and found.passed else belief.message
    return FinalAnswer(False, shown, _correction(found, belief))


def _narrowed(belief: Belief, about: frozenset[str]) -> Belief:
    """Return the belief without ended failures that this answer is not about. Open actions always remain."""
    ended = {each.action_id for each in belief.not_done} - about
    kept = {key: entry for key, entry in belief.entries.items() if key not in ended}
    return replace(belief, entries=kept)


def _cites_all(client: Readback, text: str, run: str) -> bool:
    """Return whether every item of the answer cites, or stands under "## Open"."""
    return client.check_report(text, run, every=True).passed


def _repeats(text: str, belief: Belief, open_: list[Item], mode: Mode) -> bool:
    """Return whether the answer states every open action in Readback's own words.

    Where the answer is replaced, it may hold no other words.
    """
    plain = _spaced(_CITATION.sub("", text))
    needed = [_spaced(each.message) for each in open_]
    if not all(each in plain for each in needed):
        return False
    if mode == "append":
        return True
    own = {*needed, *(_spaced(each) for each in belief.message.split("\n"))}
    for each in sorted(own, key=len, reverse=True):
        plain = plain.replace(each, " ")
    return _MARKS.match(plain) is not None


def _spaced(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _correction(found: ReportCheck, belief: Belief) -> str:
    lines = [_LEAD]
    for each in found.faults[:FAULTS_TOLD_MAX]:
        cited = one_line(each.cited, CITED_MAX_CHARACTERS)
        lines.append(f"- line {each.line}: {each.message}" + (f" ({quoted(cited)})" if cited else ""))
    for item in (*belief.unresolved, *belief.not_done):
        target, message = quoted(item.target, CITED_MAX_CHARACTERS), quoted(item.message, MESSAGE_MAX_CHARACTERS)
        lines.append(f"- {item.contract} on {target}. Tell the user only: {message}")
    return "\n".join([*lines, _WAYS])


def believed(client: Readback, run: str, max_bytes: int, *, cite: bool) -> str:
    """Return the state of a run for the model's next context; "" for a run without actions.

    With `cite`, the citations of the newest verified actions follow, as far as they fit. Where the ledger cannot be
    read, or the open actions do not fit, the text says so.
    """
    return guarded(lambda: _believed(client, run, max_bytes, cite=cite), lambda _: f"{_NO_BELIEF}{CANNOT_TELL}")


def _believed(client: Readback, run: str, max_bytes: int, *, cite: bool) -> str:
    belief = client.belief(run)
    if not belief.entries and not belief.older:
        return ""
    text = belief.for_model(max_bytes)
    for fact in reversed(belief.verified[-CITATIONS_TOLD_MAX:] if cite else ()):
        try:
            line = f"\nCite action {fact.action_id} as: {client.get(fact.action_id).cite()}"
        except CitationError:  # erased, fallen or contested since
            continue
        if len((text + line).encode()) > max_bytes:
            break
        text += line
    return text
