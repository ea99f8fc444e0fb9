"""The page "Who consumes what": each consumer of the specification has a row, and each name in a row exists."""

from __future__ import annotations

import json
import re
from importlib import resources

import click
import pytest

import readback
from readback.cli.cli import main
from readback.domain.records.message import EventName
from readback.telemetry.metrics import ALL_SERIES, METRICS, PREFIX
from readback.telemetry.prometheus_files import ALERTS
from scripts.metrics_page import PAGE, page
from tests.architecture.tree import ROOT

CONSUMERS = (
    "Agentic orchestration",
    "Tool contracts",
    "Production pathologies",
    "Permission boundaries",
    "Dependency risk",
    "Resource abuse",
    "Fallback and degraded modes",
    "Transparent status",
    "Human review",
    "Telemetry",
    "Agent evaluations",
    "Audit and replay",
    "Incident response",
    "Governance, policy, compliance and accountability",
    "Reference architecture",
    "The agent's next step",
)
"""As the specification's table of handoffs prints them, and the sentence below the table."""


def rows() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "feeds.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def command_exists(words: list[str]) -> bool:
    """Whether the words after `readback` name a command."""
    found: click.Command | None = main
    context = click.Context(main)
    for word in words:
        if not isinstance(found, click.Group):
            return False
        found = found.get_command(context, word)
    return found is not None and found is not main


def test_each_of_the_sixteen_consumers_has_a_row() -> None:
    assert tuple(rows()) == CONSUMERS


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_every_name_in_the_row_of_a_consumer_exists(consumer: str) -> None:
    _question, commands, messages, series, fields = rows()[consumer]
    assert names(commands)
    assert names(messages)
    assert names(series)
    for name in names(commands):
        program, *words = name.split()
        assert program == "readback"
        assert command_exists(words), name
    assert set(names(messages)) <= {one.value for one in EventName}
    exported = {PREFIX + one.name for one in ALL_SERIES} | {one.rule for one in METRICS}
    assert set(names(series)) <= exported
    schema = json.loads((resources.files("readback.client.schemas") / "action-ledger-entry.schema.json").read_text())
    for name in names(fields):
        if name.startswith("readback."):
            assert hasattr(readback, name.removeprefix("readback.")), name
        else:
            assert name in schema["properties"], name


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert command_exists(["review", "list"])
    assert not command_exists(["review", "gone"])
    assert not command_exists(["gone"])
    assert not command_exists([])


def test_every_alert_has_its_paragraph_and_every_paragraph_an_alert() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    found = re.findall(r"^## (\w+)$", text, flags=re.MULTILINE)
    assert sorted(found) == sorted(alert.name for alert in ALERTS)
    for paragraph in re.split(r"^## \w+$", text, flags=re.MULTILINE)[1:]:
        assert len(paragraph.split()) >= 20


def test_the_reference_of_metrics_is_the_present_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python scripts/metrics_page.py --write"
