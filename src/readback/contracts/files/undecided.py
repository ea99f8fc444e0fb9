"""The mark of an undecided value: the first word is DECIDE.

Drafts contain the mark; `assembly` looks for marks, and uses no contract with one. The text after the word is a
proposal: deleting the word accepts the proposal. The mark has no meaning in a `description`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from readback.contracts.files.document import Written
from readback.contracts.files.schema import OPTIONS
from readback.contracts.files.system_options import Diagnostics, joined
from readback.contracts.files.vocabulary import SOURCE
from readback.errors import UndecidedError

MARK: Final = "DECIDE"
UNMARKED: Final = frozenset({"description"})
_SHOWN_MAX_CHARS: Final = 200


class Question(NamedTuple):
    """A marked value, the keys above, its dotted path, and its proposal ("" for none)."""

    node: Written
    keys: tuple[str, ...]
    path: str
    proposal: str

    @property
    def meaning(self) -> str:
        """The key's meaning, for the deciding person."""
        for word, below in zip(self.keys, self.keys[1:], strict=False):
            if word in SOURCE:
                return next((key.said for key in SOURCE[word].keys if key.name == below), "")
        return OPTIONS[self.keys[0]][1] if self.keys and self.keys[0] in OPTIONS else ""


def marked(proposal: str = "") -> str:
    """Return a value for a person's decision. `proposal`: the value after acceptance; "" for none."""
    return f"{MARK} {proposal}" if proposal else MARK


def proposed(text: object) -> str | None:
    """Return a marked value's proposal, "" for none; None for a value without the mark."""
    if not isinstance(text, str):
        return None
    stripped = text.strip()
    if stripped == MARK:
        return ""
    return stripped.removeprefix(f"{MARK} ").strip() if stripped.startswith(f"{MARK} ") else None


def tell_undecided(node: Written, path: str, findings: Diagnostics) -> bool:
    """Report every marked value as a fault at its place, and return whether there is any."""
    found = [*undecided(node, path)]
    for each in found:
        meaning = f" {each.meaning}" if each.meaning else ""
        what = f"Proposed: {each.proposal!r:.{_SHOWN_MAX_CHARS}}; delete the word {MARK} to accept, or write another."
        said = f"The value is undecided.{meaning} {what if each.proposal else f'Write it in place of {MARK}.'}"
        findings.add(each.node, each.path, UndecidedError(said))
    return bool(found)


def undecided(node: Written, path: str, keys: tuple[str, ...] = ()) -> Iterator[Question]:
    """Return every marked value below a node."""
    if node.mapping is not None:
        for name, each in node.mapping.items():
            if name not in UNMARKED:
                yield from undecided(each, joined(path, name), (*keys, name))
    elif node.listed is not None:
        for number, each in enumerate(node.listed):
            yield from undecided(each, f"{path}[{number}]", keys)
    else:
        proposal = proposed(node.value)
        if proposal is not None:
            yield Question(node, keys, path, proposal)
