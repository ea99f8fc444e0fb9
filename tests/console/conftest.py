"""One server with one ledger for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.bed import Bed, Browser, running


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with running(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture
def browser(bed: Bed) -> Iterator[Browser]:
    found = bed.browser()
    yield found
    found.client.close()
