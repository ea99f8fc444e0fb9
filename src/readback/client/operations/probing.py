"""Probes of a contract file's readers: each reader is asked for a missing target, each search for an unissued stamp,
and each look-up for an unissued key.

Called by `readback contracts check`. A probe reads and changes nothing, and opens no ledger. The content shown for
made-up arguments is discarded; only whether the reader shows something is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from readback.canon import Json, ReadbackError
from readback.canon.frozen import dataclass
from readback.contracts.files.contract import FileContract, FittedReader, values_of
from readback.contracts.files.schemas.sample_values import MADE_UP, made_up
from readback.contracts.files.system_options import Spec
from readback.contracts.files.templates.template import ASKS_OBSERVED, Values
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Presence
from readback.errors import SandboxEscapeError
from readback.ports.system_factory import SourceAdapter

_OF_A_SERVER: Final = (
    "This is a server's tool: the check searches the given servers for the tool, and does not call the tool."
)


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of probing one reader, search or look-up.

    `sound`: False where the reader cannot verify anything as written. `said`: the result in words.
    """

    contract: str
    reader: str
    sound: bool
    word: str
    said: str


def probed(contract: FileContract, tenant: str, principal: str) -> Iterator[Probe]:
    """Probe each reader and search of a contract for this tenant."""
    arguments = made_up(contract.arguments.schema)
    context = Context("check", tenant, principal, "check", MADE_UP, MADE_UP, MADE_UP, strong=True)
    for each in contract.readers:
        yield _probe(contract, each, context, arguments)
    for use, spec in contract.searches.items():
        fitting = contract.sought[use]
        if fitting is None:
            yield Probe(contract.name, use, True, "uncalled", _OF_A_SERVER)
            continue
        values = values_of(contract.predicates, context, arguments)
        yield Probe(contract.name, use, *_searched(use, fitting, spec, context, values))


def _searched(use: str, fitting: SourceAdapter, spec: Spec, context: Context, values: Values) -> tuple[bool, str, str]:
    try:
        given = spec.given(values)
        found = fitting.find(context, given) if use == "find" else fitting.lookup(context, given)
    except SandboxEscapeError:
        return True, "refused", "The system answers, and refuses a target outside of its folder."
    except ReadbackError as error:
        return False, "failed", error.message
    except (OSError, ImportError, ValueError) as error:
        return False, "failed", f"{type(error).__name__}: {error}"
    if isinstance(found, Lookup):
        if found.status in ("landed", "failed"):
            return (
                False,
                "present",
                "The lookup returns a result for a key that does not exist: the lookup uses another key.",
            )
        return True, "absent", "The system answers, and returns no final result for a key that does not exist."
    if found:
        return (
            False,
            "present",
            "The search for an unused stamp returns an effect: the search also returns effects of other actions.",
        )
    return True, "absent", "The system answers, and the search for an unused stamp returns no effect."


def _probe(contract: FileContract, each: FittedReader, context: Context, arguments: Mapping[str, Json]) -> Probe:
    def told(sound: bool, word: str, said: str) -> Probe:
        return Probe(contract.name, each.reader.name, sound, word, said)

    if each.fitting is None:
        return told(True, "uncalled", _OF_A_SERVER)
    try:
        each.fitting.ping()
        given = each.spec.given(values_of(contract.predicates, context, arguments))
        found = each.fitting.read(context, given)
    except SandboxEscapeError:
        return told(True, "refused", "The system answers, and refuses a target outside of its folder.")
    except ReadbackError as error:
        if error.details.get(ASKS_OBSERVED):
            return told(
                True, "unnamed", "The system answers. The reader needs the tool's answer, and there is no answer yet."
            )
        return told(False, "failed", error.message)
    except (OSError, ImportError, ValueError) as error:  # the last: a host's name that is none, as its own library says
        return told(False, "failed", f"{type(error).__name__}: {error}")
    match found.presence:
        case Presence.ABSENT:
            return told(True, "absent", "The system answers, and shows no record for a target that does not exist.")
        case Presence.PRESENT if _shows_a_whole(each.spec):
            return told(True, "present", "The system answers, and shows the whole collection of the target.")
        case Presence.PRESENT if each.spec.names:
            return told(
                False,
                "present",
                "The reader shows a record for a target that does not exist: the reader reads another record.",
            )
        case Presence.PRESENT:
            return told(
                True,
                "present",
                "The system answers. The reader names no argument, so every reading shows the same object.",
            )
        case Presence.NOT_VISIBLE:
            return told(True, "not_visible", f"The system answers, and an absence is not accepted: {found.detail}")
        case _ if each.spec.kind == "git" and "at" in each.spec.asked:
            return told(
                True, "unavailable", "The system answers, and has no repository for a target that does not exist."
            )
        case _:
            return told(False, "unavailable", found.detail)


def _shows_a_whole(spec: Spec) -> bool:
    """Return whether the arguments select fields of an object rather than the object."""
    shows = spec.kind == "tables" or (spec.kind, spec.fixed.get("show")) in (("file", "lines"), ("git", "status"))
    return shows or (spec.kind == "file" and "also" in spec.asked)
