"""Check of a final report: every citation, and every block declared as done.

Called by the clients with the ledger's evidence for each cited action. In order:

1. Read the text: citations, imitations of citations, and blocks.
2. For each citation: the action, the claim, the evidence, the cited place, the hash.
3. For each block declared as done: at least one visible citation inside the block.

The check covers the source of a statement and the standing of the claim, not the words beside a citation.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NoReturn

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.domain.grounding.citation import CITATION, Citation, Evidence, digest, read_citation
from readback.domain.grounding.confusables import folded
from readback.domain.grounding.layout import Block, blocks_of, unseen_in
from readback.domain.state import EXIT_FAILED, EXIT_UNDETERMINED, EXIT_VERIFIED
from readback.errors import HonestyError, OversizeError

REPORT_MAX_BYTES: Final = 524_288
CITATIONS_MAX: Final = 4_000
CITED_ACTIONS_MAX: Final = 1_000
"""Largest number of different actions cited by one report."""
FAULTS_LISTED_MAX: Final = 1_000
"""Largest number of listed faults. The report counts the others."""
SHOWN_MAX_CHARACTERS: Final = 160


class Fault(StrEnum):
    """A fault at one place of a report. Stable codes; see FAULTS."""

    MALFORMED = "malformed"
    UNKNOWN = "unknown"
    OTHER_RUN = "other_run"
    SAGA = "saga"
    PENDING = "pending"
    UNDETERMINED = "undetermined"
    NOT_VERIFIED = "not_verified"
    CONTESTED = "contested"
    RETRACTED = "retracted"
    FALLEN = "fallen"
    SUPERSEDED = "superseded"
    OUTDATED = "outdated"
    ERASED = "erased"
    MISSING = "missing"
    PLACE = "place"
    HASH = "hash"
    UNCITED = "uncited"


FAULTS: Final = MappingProxyType(
    {
        Fault.MALFORMED: "This looks like a citation, and is none to the letter.",
        Fault.UNKNOWN: "There is no such action in this tenant.",
        Fault.OTHER_RUN: "The action belongs to another run.",
        Fault.SAGA: "This is a saga, and claims are of actions: cite its steps.",
        Fault.PENDING: "The action is pending; nothing is claimed of it so far.",
        Fault.UNDETERMINED: "What became of the action is not determined.",
        Fault.NOT_VERIFIED: "The action is not verified: it did not end as a success that stands.",
        Fault.CONTESTED: "The claim is contested.",
        Fault.RETRACTED: "The claim was retracted.",
        Fault.FALLEN: "What the action was planned upon stands no more.",
        Fault.SUPERSEDED: "A later action on the same target shows another value at this place: cite that action.",
        Fault.OUTDATED: "A later action on the same target may have changed this value, and does not show the value.",
        Fault.ERASED: "The evidence was erased; this citation cannot be resolved any more.",
        Fault.MISSING: "The evidence is not there, and no entry says that it was erased.",
        Fault.PLACE: "There is nothing at this place of the evidence.",
        Fault.HASH: "The hash is another one: the evidence, or the citation, was changed, or it was read again since.",
        Fault.UNCITED: "This is declared as done, and cites nothing that a reader can see.",
    }
)
OPEN_FAULTS: Final = frozenset({Fault.PENDING, Fault.UNDETERMINED, Fault.OUTDATED, Fault.ERASED, Fault.MISSING})
"""Faults without evidence against the cited result: undecided, or not yet decided."""

_NEAR: Final = re.compile(
    r"\[\s{0,8}readback\s{0,8}:[^\s\[\]]{0,2048}"
    r"|readback\s{0,8}:[^\s:]{1,1024}:[^\s:]{1,1024}:"
    r"|:(?:/[^\s:\[\]]{0,1024}|[0-9]{1,9}-[0-9]{1,9}):[0-9a-f]{60,68}(?![0-9a-f])"
)
_AFTER: Final = frozenset(":(")
"""Text after brackets that makes a link or a link's definition. A link's text is not a visible citation."""


@dataclass(frozen=True, slots=True)
class CitedEvidence:
    """The ledger's answer for a cited action: the evidence, or why no evidence is reliable."""

    evidence: bytes = b""
    fault: Fault | None = None
    later: CitedEvidence | None = None
    """The last later action on the same target with a possible change; None without one."""


@dataclass(frozen=True, slots=True)
class ReportFault:
    """A fault with a line number. `cited`: the citation, or the beginning of the uncited block."""

    fault: Fault
    line: int
    cited: str
    action_id: str = ""

    @property
    def message(self) -> str:
        return FAULTS[self.fault]

    def as_json(self) -> dict[str, Json]:
        said = {"code": self.fault.value, "line": self.line, "message": self.message}
        return {**said, "cited": self.cited, "action": self.action_id}


@dataclass(frozen=True, slots=True)
class ReportCheck:
    """The result of checking a report. The object has no truth value: read `passed`."""

    run: str
    citations: int
    actions: int
    declared: int
    """Number of blocks declared as done."""
    faults: tuple[ReportFault, ...] = ()
    faults_total: int = 0
    exit_code: int = EXIT_VERIFIED

    @property
    def passed(self) -> bool:
        """Every citation resolves, and every block declared as done has a citation."""
        return self.faults_total == 0

    def as_json(self) -> dict[str, Json]:
        return {
            "passed": self.passed,
            "run": self.run,
            "citations": self.citations,
            "actions": self.actions,
            "declared": self.declared,
            "faults_total": self.faults_total,
            "faults": [each.as_json() for each in self.faults],
            "exit_code": self.exit_code,
        }

    def __bool__(self) -> NoReturn:
        raise HonestyError("A check is neither true nor false.", remedy="Use check.passed or check.faults.")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """A parsed report, with citations by place in the text."""

    text: str
    citations: tuple[tuple[int, Citation], ...]
    malformed: tuple[int, ...]
    blocks: tuple[Block, ...]
    lines: tuple[int, ...] = field(repr=False)
    _of: Mapping[str, tuple[Citation, ...]] = field(repr=False, default_factory=dict)

    @property
    def action_ids(self) -> tuple[str, ...]:
        """The cited actions, each once."""
        return tuple(self._of)

    def cited(self, action_id: str) -> tuple[Citation, ...]:
        """The citations of an action, each listed once."""
        return self._of.get(action_id, ())

    def line(self, at: int) -> int:
        return bisect_right(self.lines, at)

    def shown(self, at: int) -> str:
        return self.text[at : at + SHOWN_MAX_CHARACTERS].split("\n")[0].strip()


def read_report(text: str) -> ReadReport:
    """Read a report. Raises OversizeError for a report with too much text or too many citations."""
    if len(text) > REPORT_MAX_BYTES or len(text.encode(errors="surrogatepass")) > REPORT_MAX_BYTES:
        raise OversizeError(f"The report is over {REPORT_MAX_BYTES} bytes.", remedy="Report in several parts.")
    citations: list[tuple[int, Citation]] = []
    malformed: list[int] = []
    covered: list[tuple[int, int]] = []
    for found in CITATION.finditer(text):
        read = read_citation(found)
        covered.append(found.span())
        if read is None:
            malformed.append(found.start())
        else:
            citations.append((found.start(), read))
        if len(covered) > CITATIONS_MAX:
            raise OversizeError(f"The report cites over {CITATIONS_MAX} times.", remedy="Report in several parts.")
    starts, at = [0], 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        starts.append(at)
    malformed += _near(text, covered)
    of: dict[str, dict[Citation, None]] = {}
    for _, each in citations:
        of.setdefault(each.action_id, {})[each] = None
    if len(of) > CITED_ACTIONS_MAX:
        raise OversizeError(f"The report cites over {CITED_ACTIONS_MAX} actions.", remedy="Report in several parts.")
    grouped = {action_id: tuple(cited) for action_id, cited in of.items()}
    blocks = tuple(blocks_of(text))
    return ReadReport(text, tuple(citations), tuple(sorted(malformed)), blocks, tuple(starts), grouped)


def resolve(report: ReadReport, action_id: str, ground: CitedEvidence, tenant: str) -> dict[Citation, Fault | None]:
    """Return the fault of each citation of one action, or None. The evidence is not kept."""
    evidence = Evidence(ground.evidence)
    later = None if ground.later is None or ground.later.fault else Evidence(ground.later.evidence)
    found: dict[Citation, Fault | None] = {}
    for each in report.cited(action_id):
        fault = ground.fault or _fault_of(each, evidence, tenant)
        if fault is None and ground.later is not None and each.place.startswith("/"):
            fault = _since(evidence.at(each.place), None if later is None else later.at(each.place))
        found[each] = fault
    return found


def judge(
    report: ReadReport, resolved: Mapping[Citation, Fault | None], *, run: str = "", every: bool = False
) -> ReportCheck:
    """Check a report. An unresolved citation counts as a citation of an unknown action.

    `every`: every block outside `## Open` needs a citation, not only declared blocks.
    """
    faults = [ReportFault(Fault.MALFORMED, report.line(at), report.shown(at)) for at in report.malformed]
    for at, cited in report.citations:
        fault = resolved.get(cited, Fault.UNKNOWN)
        if fault is not None:
            faults.append(ReportFault(fault, report.line(at), str(cited), cited.action_id))
    declared = [each for each in report.blocks if each.declared or (every and not each.open and not each.title)]
    seen = _visible(report)
    for block in declared:
        if not any(_any_in(seen, piece) for piece in block.pieces):
            faults.append(ReportFault(Fault.UNCITED, block.line, report.shown(block.pieces[0][0])))
    faults.sort(key=lambda each: each.line)
    return ReportCheck(
        run,
        len(report.citations),
        len(report.action_ids),
        len(declared),
        tuple(faults[:FAULTS_LISTED_MAX]),
        len(faults),
        _exit_code(each.fault for each in faults),
    )


def _fault_of(cited: Citation, evidence: Evidence, tenant: str) -> Fault | None:
    found = evidence.at(cited.place)
    if found is None:
        return Fault.PLACE
    return None if digest(tenant, cited.action_id, cited.place, found) == cited.sha256 else Fault.HASH


def _since(cited: bytes | None, shown: bytes | None) -> Fault | None:
    """The fault of a field's value after a later action. A span, or the whole, refers only to the time of the
    reading.
    """
    if shown is None:
        return Fault.OUTDATED
    return None if shown == cited else Fault.SUPERSEDED


def _exit_code(faults: Iterable[Fault]) -> int:
    """A definite fault outweighs an undecided fault."""
    found = set(faults)
    if not found:
        return EXIT_VERIFIED
    return EXIT_UNDETERMINED if found <= OPEN_FAULTS else EXIT_FAILED


def _near(text: str, covered: list[tuple[int, int]]) -> list[int]:
    """The places of imitated citations."""
    parts: list[str] = []
    places: list[int] = []
    at = size = 0
    for start, end in [*covered, (len(text), len(text))]:
        for place, line in _pieces(text, at, start):
            looks = folded(line)
            parts.append(looks)
            places.append(place if len(looks) == len(line) else -place - 1)
            size += len(looks)
        parts.append("\n")
        places.append(start)
        at = end
    whole = "".join(parts)
    ends, total = [], 0
    for part in parts:
        ends.append(total)
        total += len(part)
    found: list[int] = []
    for match in _NEAR.finditer(whole):
        which = bisect_right(ends, match.start()) - 1
        place = places[which]
        found.append(place + match.start() - ends[which] if place >= 0 else -place - 1)
        if len(found) > CITATIONS_MAX:
            break
    return found


def _pieces(text: str, start: int, end: int) -> list[tuple[int, str]]:
    pieces: list[tuple[int, str]] = []
    for line in text[start:end].splitlines(keepends=True):
        pieces.append((start, line))
        start += len(line)
    return pieces


def _visible(report: ReadReport) -> list[int]:
    """The places of visible citations: outside comments and tags, and not a link's text."""
    comments = unseen_in(report.text)
    begins = [start for start, _ in comments]
    seen: list[int] = []
    text = report.text
    defined = {cited for at, cited in report.citations if text.startswith(":", at + len(str(cited)))}
    for at, cited in report.citations:
        which = bisect_right(begins, at) - 1
        hidden = which >= 0 and at < comments[which][1]
        after = text[at + len(str(cited)) : at + len(str(cited)) + 1]
        before = text[max(at - 2, 0) : at]
        hidden = hidden or (before.endswith("]") and cited in defined)  # a link's name, after its text
        if not hidden and after not in _AFTER and not before.endswith(("](", "!", "/", '"', "=")):
            seen.append(at)
    return seen


def _any_in(seen: list[int], piece: tuple[int, int]) -> bool:
    place = bisect_right(seen, piece[0] - 1)
    return place < len(seen) and seen[place] < piece[1]
