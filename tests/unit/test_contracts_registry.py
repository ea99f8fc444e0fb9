"""The registry: a module's actions by name, all loaded before one runs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from readback.client.authoring.action import ActionDefinition, action
from readback.contracts.registry import Registry, registry_of
from readback.domain.context import Context
from readback.domain.verification.reading import Reading
from readback.errors import ContractError, ContractFieldError, NotFoundError, UsageError

SOUND: dict[str, Any] = {
    "kind": "set",
    "side_effect": "ephemeral_write",
    "target": "flag/{requested.name}",
    "ensure": {"on": "authoritative.on == true"},
}


def flag(name: str, **changes: Any) -> ActionDefinition[[str]]:
    def set_flag(ctx: Context, name: str) -> object:
        return None

    def look(ctx: Context, name: str) -> Reading:
        return Reading.of({"on": True})

    made = action(**{**SOUND, "name": name, **changes})(set_flag)
    made.read(source="flags", consistency="strong", independence="other_client")(look)
    return made


def module(**held: object) -> ModuleType:
    made = ModuleType("operators.contracts")
    vars(made).update(held)
    return made


def test_a_modules_actions_are_found_by_their_names() -> None:
    one, two = flag("one"), flag("two")
    registry = registry_of([module(one=one, two=two, again=one, other=7, kind=ActionDefinition, Context=Context)])
    assert list(registry) == ["one", "two"]
    assert len(registry) == 2
    assert registry.get("one") is one
    assert "two" in registry
    plans = registry.load()
    assert {name: plan.contract.name for name, plan in plans.items()} == {"one": "one", "two": "two"}


def test_a_compensation_comes_along() -> None:
    one, back = flag("one"), flag("back")
    one.compensate(back)
    assert list(registry_of([module(one=one)])) == ["one", "back"]


def test_two_contracts_of_one_name_are_refused() -> None:
    with pytest.raises(ContractFieldError, match="Two contracts have the name 'one'"):
        registry_of([module(a=flag("one"), b=flag("one"))])


def test_a_name_that_nobody_bears_is_not_found_and_the_nearest_is_told() -> None:
    with pytest.raises(NotFoundError, match="Did you mean 'ship_order'") as caught:
        Registry([flag("ship_order")]).get("ship_ordr")
    assert caught.value.exit_code == 2


def test_a_module_without_actions_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match=r"no action in operators\.contracts"):
        registry_of([module(other=7)])


@pytest.mark.requirement("L25")
def test_the_faults_of_all_contracts_are_told_together() -> None:
    registry = Registry([flag("one", within=1), flag("two"), flag("three", ensure={})])
    with pytest.raises(ContractError, match="2 contracts cannot be loaded") as caught:
        registry.load()
    found = caught.value.details["problems"]
    assert isinstance(found, list)
    assert [(each["contract"], each["key"]) for each in found] == [("one", "within"), ("three", "ensure")]


def test_one_contracts_fault_is_told_as_it_is() -> None:
    with pytest.raises(ContractFieldError, match="'one' cannot be loaded"):
        Registry([flag("one", within=1), flag("two")]).load()


@pytest.mark.parametrize("name", ["no_such_module_at_all", "readback.no_such_module", "", ".relative"])
def test_a_module_that_does_not_exist_is_wrong_usage(name: str) -> None:
    with pytest.raises(UsageError):
        registry_of([name])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_dependency_at_all", "no_such_dependency_at_all"),
        ("1 / 0", "ZeroDivisionError"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_the_contracts_fault(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "operators_broken.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "operators_broken", raising=False)
    with pytest.raises(ContractError, match=said) as caught:
        registry_of(["operators_broken"])
    assert caught.value.exit_code == 5


def test_a_module_is_found_as_python_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "operators_sound", module(one=flag("one")))
    assert list(registry_of(["operators_sound"])) == ["one"]
