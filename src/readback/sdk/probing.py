"""Whether a contract file's readers can read: each is reached, and asked for a target that does not exist.

Called by `readback contracts check`. It looks and changes nothing, and no ledger is opened. What a reader shows for
made-up arguments is not kept; only whether it shows something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from readback.canon import Json, ReadbackError
from readback.contracts.files.contract import FileContract, FittedReader, values_of
from readback.domain.context import Context
from readback.domain.reading import Presence

MADE_UP: Final = "readback-check-7f3a9c41"
MADE_UP_NUMBER: Final = 2_147_480_711


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of one reader. `sound`: False where it cannot verify anything as it stands. `said`: in words."""

    contract: str
    reader: str
    sound: bool
    word: str
    said: str


def probed(contract: FileContract, tenant: str, principal: str) -> Iterator[Probe]:
    """Each reader of a contract, reached and asked for this tenant."""
    arguments = made_up(contract.arguments.schema)
    context = Context("check", tenant, principal, "check", MADE_UP, MADE_UP, MADE_UP, strong=True)
    for each in contract.readers:
        yield _probe(contract, each, context, arguments)


def _probe(contract: FileContract, each: FittedReader, context: Context, arguments: Mapping[str, Json]) -> Probe:
    def told(sound: bool, word: str, said: str) -> Probe:
        return Probe(contract.name, each.reader.name, sound, word, said)

    try:
        each.fitting.ping()
        given = each.spec.given(values_of(contract.predicates, context, arguments))
        found = each.fitting.read(context, given)
    except ReadbackError as error:
        return told(False, "failed", error.message)
    except (OSError, ImportError) as error:
        return told(False, "failed", f"{type(error).__name__}: {error}")
    match found.presence:
        case Presence.ABSENT:
            return told(True, "absent", "It is reached, and shows nothing for a target that does not exist.")
        case Presence.PRESENT if each.spec.names:
            return told(False, "present", "It shows something for a target that does not exist: it reads another one.")
        case Presence.PRESENT:
            return told(True, "present", "It is reached; it names no argument, so it shows one and the same object.")
        case Presence.NOT_VISIBLE:
            return told(True, "not_visible", f"It is reached, and its absences are not believed: {found.detail}")
        case _:
            return told(False, "unavailable", found.detail)


def made_up(schema: Mapping[str, Json]) -> dict[str, Json]:
    """Arguments that fit their types, and name nothing that there is."""
    properties = schema.get("properties")
    shapes = properties if isinstance(properties, dict) else {}
    return {name: _value(shape) for name, shape in shapes.items()}


def _value(shape: Json) -> Json:
    if not isinstance(shape, dict):
        return MADE_UP
    for key in ("anyOf", "oneOf"):
        options = shape.get(key)
        if isinstance(options, list) and options:
            return _value(options[0])
    constants = shape.get("enum", [shape["const"]] if "const" in shape else None)
    if isinstance(constants, list) and constants:
        return constants[0]
    kinds = shape.get("type", "string")
    several = kinds if isinstance(kinds, list) else [kinds]
    kind = next((each for each in _MADE_UP if each in several), "string")
    length = shape.get("maxLength")
    made = _MADE_UP[kind]
    return made[:length] if isinstance(made, str) and isinstance(length, int) else made


_MADE_UP: Final[Mapping[str, Json]] = {
    "string": MADE_UP,
    "integer": MADE_UP_NUMBER,
    "number": MADE_UP_NUMBER,
    "boolean": False,
    "array": [],
    "object": {},
    "null": None,
}
