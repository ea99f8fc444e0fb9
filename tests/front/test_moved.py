"""Programs that import the earlier places of modules keep working, and learn the present name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from readback.moved import MOVED, RENAMED


@pytest.mark.parametrize("earlier", [name for name, present in MOVED.items() if present])
def test_an_earlier_place_gives_the_present_module_and_a_warning(earlier: str) -> None:
    sys.modules.pop(earlier, None)
    with pytest.warns(DeprecationWarning, match=f"{MOVED[earlier]}"):
        module = import_module(earlier)
    present = import_module(MOVED[earlier])
    names = [name for name in vars(present) if name[:1].isupper()] or list(present.__all__)
    assert all(getattr(module, name) is getattr(present, name) for name in names)
    for old, new in RENAMED.get(earlier, {}).items():
        assert getattr(module, old) is getattr(present, new)


def test_a_module_that_never_was_is_missing() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("readback.sdk.nothing")


def test_the_table_is_not_loaded_by_a_program_that_uses_present_names() -> None:
    code = "import sys, readback, readback.systems; print('readback.moved' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
