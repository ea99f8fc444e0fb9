"""The real PostgreSQL of the tests and the recipe's example starts wherever its programs happen to be installed."""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from readback.testing.postgres_server import LIBRARIES, PACKAGE, PROGRAMS, PostgresPair

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as somebody else")


@pytest.fixture
def shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs as they are installed below a folder that only its owner enters, as `mktemp -d` makes one."""
    spec = find_spec(PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    found, shut = Path(spec.submodule_search_locations[0]).parent, tmp_path / "shut"
    shutil.copytree(found / PACKAGE / PROGRAMS, shut / PACKAGE / PROGRAMS, symlinks=True)
    shutil.copytree(found / LIBRARIES, shut / LIBRARIES, symlinks=True)
    (shut / PACKAGE / "__init__.py").touch()
    shut.chmod(0o700)
    monkeypatch.syspath_prepend(shut)
    return shut


def test_it_starts_and_starts_again_where_nobody_else_can_enter_the_environment(shut: Path) -> None:
    with PostgresPair(standby=False, settings="fsync = on") as server:
        server.run("create table kept (number int)")
        server.kill()
        server.start_again()
        assert server.run("select count(*) from kept") == (0,)
        root = server.root
    assert not root.exists()


@AS_ROOT
def test_a_temporary_folder_that_it_cannot_enter_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(shut))
    with pytest.raises(RuntimeError, match=rf"cannot enter {shut}. Set TMPDIR"), PostgresPair():
        pass
    assert [*shut.iterdir()] == []
