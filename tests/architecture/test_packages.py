"""What is installed is what was locked, and the version is the same wherever it is written."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.architecture.tree import ROOT

LOCKS = ["requirements.lock", "requirements-demo.lock", "requirements-agentdojo.lock"]
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


ENGINES = ("agent-hooks", "dbos", "restate", "temporal")
"""Extras with one environment for all of them, tests/engines."""


def _project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def _pins(name: str) -> dict[str, str]:
    return dict(PIN.findall((ROOT / name).read_text(encoding="utf-8")))


def _is_apart(extra: str) -> bool:
    """Whether an extra is of a framework: such extras contradict each other, so each has a lock of its own."""
    lock = ROOT / "tests/frameworks/locks" / f"{extra.replace('-', '_')}-latest.lock"
    return extra in ENGINES or lock.exists()


def _asked() -> list[str]:
    project = _project()
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    kept = [each for name, extra in extras.items() if not _is_apart(name) for each in extra]
    return [*project["dependencies"], *kept]  # type: ignore[misc]


def test_each_framework_extra_is_locked_in_an_environment_of_its_own() -> None:
    extras = _project()["optional-dependencies"]
    assert isinstance(extras, dict)
    locks = [*(ROOT / "tests/frameworks/locks").glob("*-latest.lock"), ROOT / "tests/engines/engines.lock"]
    pinned = {name for lock in locks for name in _pins(str(lock.relative_to(ROOT)))}
    asked = {re.split(r"[\s\[<>=!~]", each)[0] for name, extra in extras.items() if _is_apart(name) for each in extra}
    assert asked - pinned == set()


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_its_hashes_and_no_place(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert _pins(name)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), block
    assert "://" not in text
    assert not re.search(r"^--", text, re.MULTILINE)


def test_the_demo_is_locked_at_the_same_versions() -> None:
    assert _pins("requirements-demo.lock").items() <= _pins("requirements.lock").items()


def test_everything_asked_for_is_locked() -> None:
    names = {re.split(r"[\s\[<>=!~]", each)[0] for each in _asked()} - {"readback-ai"}
    assert len(names) > 10
    assert names - _pins("requirements.lock").keys() == set()


def test_what_is_younger_than_one_is_pinned_exactly() -> None:
    """Build and test tools that only this checkout sees are held by the lock instead."""
    project = _project()
    pins = _pins("requirements.lock")
    for asked in [*project["dependencies"], *project["optional-dependencies"]["demo"]]:  # type: ignore[index,misc]
        name = re.split(r"[\s\[<>=!~]", asked)[0]
        assert not pins[name].startswith("0.") or asked == f"{name}=={pins[name]}", asked


def test_the_version_is_one() -> None:
    version = _project()["version"]
    code = (ROOT / "src/readback/__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{version}"' in code
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_formatter_is_pinned() -> None:
    assert any(re.fullmatch(r"ruff==\S+", each) for each in _asked()), "a new formatter would reformat everything"
