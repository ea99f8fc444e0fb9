"""Public means promised: what a user may import is written down, and a change of it is seen."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import readback

# One name a line. To add one is to promise it: say so in CHANGELOG.md. To take one away is to break a user.
PROMISED = (Path(__file__).parent / "public_names.txt").read_text(encoding="utf-8").split()


def test_the_public_names_are_the_promised_ones() -> None:
    assert sorted(readback.__all__) == sorted(PROMISED)
    assert len(PROMISED) == len(set(PROMISED))


@pytest.mark.parametrize("name", PROMISED)
def test_each_promised_name_is_there_and_explains_itself(name: str) -> None:
    thing = getattr(readback, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert inspect.getdoc(thing), f"readback.{name} has no docstring"
        assert thing.__module__.startswith("readback")


def test_no_other_name_is_offered() -> None:
    """Rooms are modules, not names for users; what is not promised is an AttributeError that says so."""
    offered = {name for name in dir(readback) if not name.startswith("_")}
    assert set(PROMISED) - {"__version__"} <= offered
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(readback, "no_such_name")  # noqa: B009 -- the attribute does not exist


@pytest.mark.slow
def test_a_star_import_brings_the_promised_names_alone() -> None:
    code = "from readback import *; print(*(n for n in dir() if not n.startswith('__') or n == '__version__'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(PROMISED)
