"""The local places of a contract's files, for freezes: one file is one target under every name.

Called when a file is loaded; the resulting function runs with each action. A file is known by its path with every link
followed. A file with several names is also known by device and inode, as Readback's own files are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from readback.canon import Json, ReadbackError
from readback.contracts.files.contract import FileContract
from readback.contracts.files.system_options import Spec
from readback.contracts.files.templates.template import Values
from readback.contracts.templates import compile_template
from readback.domain.contract.freezing import INODE, PLACE
from readback.domain.normal_form import widest
from readback.errors import TemplateError
from readback.ports.system_factory import SystemFactory

FILE: Final = "file"
Located = Callable[[str], str]


def places_of(
    made: FileContract, fittings: SystemFactory
) -> Callable[[Mapping[str, Json], bool], tuple[str, ...]] | None:
    """Return the function for a contract's places; None for a contract without a file target.

    The function takes the request, and whether to freeze. For a freeze the target's own file alone counts. Otherwise
    every file of the executor counts too, and a file with one name is known by path alone: a freed inode soon belongs
    to another file.
    """
    wanted = _named_by(made.plan.contract.target)
    own: list[tuple[Spec, Located]] = [
        (each.spec, each.fitting.located)
        for each in made.readers
        if each.spec.kind == FILE and each.fitting is not None and each.fitting.located is not None
    ]
    acts = made.execute
    if acts is not None and acts.kind == FILE:
        located = fittings.executor(FILE, made.name, acts.fixed, made.home.folder, 0).located
        own += [] if located is None else [(acts, located)]
    targets = [(render, at) for spec, at in own for names, render in spec.paths if names and names == wanted]
    others = [(render, at) for spec, at in own for names, render in spec.paths if names and spec is acts]
    if not targets and not others:
        return None

    def places(requested: Mapping[str, Json], freezes: bool) -> tuple[str, ...]:
        values = Values(made.predicates, {"requested": dict(requested), "observed": None, "before": None, "scope": {}})
        found: dict[str, None] = {}
        for render, at in targets if freezes else [*targets, *others]:
            try:
                path = os.path.realpath(at(str(render(values))))
                found[PLACE + widest(path)] = None
                seen = os.stat(path)
            except (ReadbackError, OSError, ValueError):
                continue
            if freezes or seen.st_nlink > 1:
                found[f"{INODE}{seen.st_dev}:{seen.st_ino}"] = None
        return tuple(found)

    return places


def _named_by(target: str) -> frozenset[str]:
    try:
        return frozenset(path[1] for path in compile_template(target).paths if path[0] == "requested")
    except TemplateError:
        return frozenset()
