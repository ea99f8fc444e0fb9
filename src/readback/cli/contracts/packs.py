"""`readback contracts list` without files: the built-in packs."""

from __future__ import annotations

from readback.canon import Json
from readback.cli.terminal import note, print_json
from readback.contracts.packs import PACKS, PREFIX, Pack, Parameter


def list_packs(as_json: bool) -> int:
    """Print each pack with its tested server and its parameters."""
    if as_json:
        print_json({"files": [], "contracts": [], "packs": [_listed(each) for each in PACKS.values()]})
        return 0
    for pack in PACKS.values():
        print(f"{PREFIX}{pack.name}  {pack.said}  For {pack.server}.")
        for each in pack.parameters:
            print(f"    {each.name}: {each.said}{_without(each)}")
    note("No contract file is named, so the packs are shown. `readback contracts show pack:NAME` prints one.")
    return 0


def _without(parameter: Parameter) -> str:
    if parameter.default.startswith("@"):
        return f" Where it is not given: as {parameter.default[1:]}."
    if parameter.default:
        return f" Where it is not given: {parameter.default}."
    return f" Where it is not given: {parameter.env}." if parameter.env else ""


def _listed(pack: Pack) -> Json:
    shown: list[Json] = [
        {"name": each.name, "says": each.said, "default": each.default, "env": each.env} for each in pack.parameters
    ]
    return {"name": f"{PREFIX}{pack.name}", "says": pack.said, "server": pack.server, "parameters": shown}
