"""A shop for each test, and a kit over its ledger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from readback.kit import Kit
from tests.kit.shop import ENTER_SCHEMA, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def kit(shop: Shop) -> Iterator[Kit]:
    with Kit.open(**shop.opened()) as made:
        made.govern("enter", ENTER_SCHEMA, shop.enter, description="Enter an amount.")
        yield made
