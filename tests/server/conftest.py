"""A shop, its sandbox, and one server for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.bed import Bed, running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_DB", str(folder / "shop.db"))
        patch.setenv("SHOP_SANDBOX", str(folder / "sandbox.db"))
        yield folder


@pytest.fixture(scope="module")
def bed(place: Path) -> Iterator[Bed]:
    with running(place) as found:
        yield found
