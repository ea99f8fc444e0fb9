"""A fresh house for each test."""

from __future__ import annotations

import pytest

from tests.lifecycle.house import House


@pytest.fixture
def house() -> House:
    return House()
