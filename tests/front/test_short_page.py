"""The page about short contracts prints what it shows, and the docstrings of the public names run."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io

import pytest

from tests.docs.pages import blocks

PAGE = "docs/short-contracts.md"
MODULES = (
    "readback.contracts.assumed",
    "readback.contracts.functions.callables",
    "readback.contracts.functions.conditions",
    "readback.contracts.functions.verifiers",
    "readback.contracts.functions.calling",
    "readback.domain.context",
    "readback.errors",
    "readback.domain.outcome.outcome",
    "readback.client.authoring.action",
    "readback.client.authoring.contract_keys",
    "readback.client.authoring.decorating",
    "readback.client.approving",
    "readback.client.async_client",
    "readback.client.client",
    "readback.client.in_use",
    "readback.client.proposal",
    "readback.client.step",
    "readback.gateway.embedded",
    "readback.gateway.gateway",
    "readback.gateway.upstream.upstream",
    "readback.client.authoring.verified",
)


def test_the_page_prints_what_it_shows() -> None:
    shown = blocks(PAGE)
    program = "\n".join(block.text for block in shown if block.language == "python")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(program, PAGE, "exec"), {"__name__": "page"})
    expected = [line for block in shown if block.language == "text" for line in block.text.splitlines()]
    assert expected
    assert said.getvalue().splitlines() == expected


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.attempted, f"{name} has no example"
    assert done.failed == 0
