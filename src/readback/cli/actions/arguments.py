"""Arguments of `readback run`: shell text becomes a value by the action's schema, without guessing.

`--arg k=v` is text if the parameter accepts text, and JSON otherwise. `--arg-json k=JSON` is always JSON. So "7" stays
text for a `str` and becomes a number for an `int`. A parameter that accepts both receives text from `--arg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from readback.canon import Json, MalformedJsonError, ReadbackError, parse_json, why_not_json
from readback.errors import ArgumentError

DEPTH_MAX: Final = 8


def read_arguments(schema: Mapping[str, Json], texts: Iterable[str], jsons: Iterable[str]) -> dict[str, Json]:
    """The values by name. `schema`: JSON Schema of the arguments. Raises ArgumentError with all problems.

    An unknown name is passed on as text. Binding then refuses the name and lists the known names.
    """
    properties = schema.get("properties")
    shapes = properties if isinstance(properties, dict) else {}
    read: dict[str, Json] = {}
    problems: list[dict[str, str]] = []
    for pair, as_json in [*((t, False) for t in texts), *((j, True) for j in jsons)]:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            problems.append({"argument": name, "reason": f"{pair!r} is not of the form name=value."})
            continue
        if name in read:
            problems.append({"argument": name, "reason": "It is given twice."})
            continue
        try:
            read[name] = text if not as_json and takes_text(shapes.get(name, {})) else parse_json(text)
        except MalformedJsonError as error:
            wanted = "It is not JSON" if as_json else "It takes no text, and this is not JSON"
            problems.append({"argument": name, "reason": f"{wanted}: {why_not_json(error)}"})
    if problems:
        raise ArgumentError("These arguments cannot be read.", details={"problems": problems})
    return read


def read_object(option: str, text: str | None) -> dict[str, Json] | None:
    """The JSON object of an option, or None without the option. Raises ArgumentError."""
    if text is None:
        return None
    try:
        value = parse_json(text)
    except ReadbackError as error:
        message = f"{option} is not JSON: {why_not_json(error)}"
        raise ArgumentError(message, remedy=f"Pass {option} a JSON object.") from error
    if not isinstance(value, dict):
        raise ArgumentError(f"{option} is not a JSON object.", remedy=f"Pass {option} a JSON object.")
    return value


def takes_text(shape: Json, root: Json = None, depth: int = 0) -> bool:
    """Whether some text satisfies a JSON Schema. A schema without types accepts text."""
    if not isinstance(shape, dict) or depth > DEPTH_MAX:
        return True
    root = shape if root is None else root
    reference = shape.get("$ref")
    if isinstance(reference, str):
        return takes_text(_referred(root, reference), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        options = shape.get(key)
        if isinstance(options, list):
            return any(takes_text(option, root, depth + 1) for option in options)
    constants = shape.get("enum", [shape["const"]] if "const" in shape else None)
    if isinstance(constants, list):
        return any(isinstance(constant, str) for constant in constants)
    types = shape.get("type")
    return types is None or types == "string" or (isinstance(types, list) and "string" in types)


def _referred(root: Json, reference: str) -> Json:
    found = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, dict) else None
    return found
