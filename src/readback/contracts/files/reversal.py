"""What a compensation that takes other arguments is given: templates over what was asked and what was read back.

Called by `build`. What the tool answered is no root here: it is a hint, and a reversal by it could undo another's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from readback.canon import CanonError, Json, json_value
from readback.contracts.files.contract import FileContract
from readback.contracts.files.document import Written
from readback.contracts.files.system_options import SpecReader, joined
from readback.contracts.files.templates.template import Values
from readback.contracts.problems import did_you_mean
from readback.domain.errors import ArgumentError, ContractError, TemplateError

REVERSAL_ROOTS: Final = ("requested", "before", "authoritative", "scope")
Reversing = Callable[[Mapping[str, Json]], tuple[Mapping[str, object], Mapping[str, Json]]]


def reversal_of(specs: SpecReader, node: Written, path: str, compensation: FileContract) -> Reversing | None:
    """Makes the arguments of the compensating contract; None, with faults, where the file's are unsound."""
    try:
        render, names = specs.values(node, path)
    except ContractError as error:
        specs.findings.add(node, path, error)
        return None
    before = len(specs.findings.faults)
    if compensation.arguments_known:
        takes = compensation.arguments
        for name in names:
            if name not in takes.names:
                said = f"{compensation.name!r} has no argument {name!r}.{did_you_mean(name, takes.names)}"
                specs.findings.add((node.mapping or {})[name], joined(path, name), said)
        for each in takes.parameters:
            if each.required and each.name not in names:
                specs.findings.add(node, path, f"{compensation.name!r} needs {each.name!r}.")
    if len(specs.findings.faults) > before:
        return None

    def made(variables: Mapping[str, Json]) -> tuple[Mapping[str, object], Mapping[str, Json]]:
        values = Values(specs.engine, {root: variables.get(root) for root in REVERSAL_ROOTS})
        try:
            rendered = json_value(render(values))
        except (TemplateError, CanonError) as error:
            raise ArgumentError(f"{compensation.name!r} cannot be given its arguments: {error.message}") from error
        assert isinstance(rendered, dict)
        bound = compensation.arguments.bind((), rendered)
        return bound.arguments, bound.requested

    return made
