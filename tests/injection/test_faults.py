"""Injected faults: each ends in the class and the words of the specification, and each hole has a name."""

from __future__ import annotations

from typing import Any

import pytest

from readback.domain.discrepancy import Discrepancy
from readback.testing import Fault, SimulatedWorld, inject, inject_all
from readback.testing.faults.fault import INJECTED, Scene, Truth
from readback.testing.faults.judge import EXPECTED, Injection, Standing
from tests.injection import shop


@pytest.mark.requirement("GATE-failure-injection", "INJECT-classes", "INJECT-words")
@pytest.mark.parametrize("action", shop.ACTIONS, ids=lambda action: action.name)
def test_a_sound_contract_ends_in_the_specified_class_and_words_under_every_fault(action: Any) -> None:
    found = inject_all(action.plan, shop.WORLDS[action.name])
    assert [each.fault for each in found] == list(INJECTED)
    assert all(each.standing in (Standing.HELD, Standing.NOT_APPLICABLE) for each in found), found


@pytest.mark.requirement("INJECT-classes")
@pytest.mark.parametrize(
    ("name", "fault", "named"),
    [
        ("ship", Fault.PARTIAL_COMMIT, Discrepancy.PARTIAL_APPLICATION),
        ("create", Fault.DUPLICATE, Discrepancy.DUPLICATE_SIDE_EFFECT),
        ("charge", Fault.DUPLICATE, Discrepancy.DUPLICATE_SIDE_EFFECT),
        ("send", Fault.WRONG_TENANT, Discrepancy.WRONG_TARGET_MODIFIED),
        ("ship", Fault.WRONG_TENANT_READ, Discrepancy.WRONG_TARGET_MODIFIED),
        ("ship", Fault.SOURCE_OUTAGE, Discrepancy.UNVERIFIABLE_STATE),
        ("ship", Fault.BROKEN_VERIFIER, Discrepancy.UNKNOWN_STATE),
        ("remove", Fault.TIMEOUT_BEFORE_COMMIT, Discrepancy.NO_OP_FAILURE),
    ],
)
def test_the_class_of_each_fault_is_the_one_that_the_specification_names(
    name: str, fault: Fault, named: Discrepancy
) -> None:
    action = next(each for each in shop.ACTIONS if each.name == name)
    assert inject(action.plan, shop.WORLDS[name], fault).discrepancy == named.value


@pytest.mark.requirement("INJECT-words")
def test_a_timeout_after_the_commit_is_verified_by_reading_and_called_once() -> None:
    found = inject(shop.charge.plan, shop.charge_world, Fault.TIMEOUT_AFTER_COMMIT)
    assert (found.verdict, found.calls) == ("verified", 1)
    assert found.words.startswith("The action completed successfully.")


@pytest.mark.requirement("INJECT-holes")
@pytest.mark.parametrize(
    ("action", "world", "fault", "code"),
    [
        (shop.no_find, shop.renamed(shop.create_world, "no_find"), Fault.DUPLICATE, "duplicate-accepted"),
        (shop.no_tenant, shop.renamed(shop.ship_world, "no_tenant"), Fault.WRONG_TENANT_READ, "wrong-tenant-accepted"),
        (
            shop.half,
            shop.renamed(shop.ship_world, "half", partial={**shop.DONE, "status": "shipped", "invoice": "none"}),
            Fault.PARTIAL_COMMIT,
            "partial-commit-accepted",
        ),
    ],
    ids=lambda value: getattr(value, "value", getattr(value, "name", "")),
)
def test_a_contract_with_a_hole_fails_by_name(action: Any, world: SimulatedWorld, fault: Fault, code: str) -> None:
    found = inject(action.plan, world, fault)
    assert (found.standing, found.code) == (Standing.HOLE, code), found
    others = [each for each in inject_all(action.plan, world) if each.fault is not fault]
    assert all(each.standing is not Standing.HOLE for each in others), "one hole, one name"


@pytest.mark.requirement("INJECT-undetermined")
def test_a_contract_without_a_world_is_undetermined() -> None:
    found = inject_all(shop.ship.plan, None)
    assert {(each.standing, each.code) for each in found} == {(Standing.UNDETERMINED, "no-world")}


@pytest.mark.requirement("INJECT-undetermined")
@pytest.mark.parametrize(
    ("world", "code"),
    [
        (shop.renamed(shop.ship_world, "ship", after={**shop.DONE, "status": "lost"}), "world-misfit"),
        (shop.renamed(shop.ship_world, "ship", arguments={"thing": "o-17"}), "world-refused"),
        (shop.create_world, "world-refused"),
    ],
)
def test_a_world_that_does_not_fit_the_contract_decides_nothing(world: SimulatedWorld, code: str) -> None:
    found = inject(shop.ship.plan, world, Fault.DUPLICATE)
    assert (found.standing, found.code) == (Standing.UNDETERMINED, code), found


@pytest.mark.requirement("INJECT-undetermined")
def test_a_second_effect_of_an_adding_contract_has_to_be_stated() -> None:
    world = shop.renamed(shop.charge_world, "charge", twice=None)
    found = inject(shop.charge.plan, world, Fault.DUPLICATE)
    assert (found.standing, found.code) == (Standing.UNDETERMINED, "world-incomplete")


@pytest.mark.requirement("INJECT-holes")
def test_a_world_that_cannot_tell_the_truth_makes_no_success_true() -> None:
    class Silent(SimulatedWorld):
        def scene(self, plan: Any, fault: Fault, runtime: Any) -> Any:
            return _Blind(super().scene(plan, fault, runtime))

    world = Silent(**{name: getattr(shop.ship_world, name) for name in shop.ship_world.__dataclass_fields__})
    found = inject(shop.ship.plan, world, Fault.TIMEOUT_AFTER_COMMIT)
    assert (found.standing, found.code) == (Standing.HOLE, "timeout-not-resolved"), found


class _Blind:
    """A scene that does not know what happened."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scene, name)

    def truth(self) -> Truth:
        return Truth(None, None)


@pytest.mark.requirement("INJECT-classes")
def test_every_fault_has_an_expectation_with_verdicts_classes_and_words() -> None:
    assert set(EXPECTED) == set(INJECTED)
    assert all(each.verdicts and each.classes and each.keys and each.hole for each in EXPECTED.values())


@pytest.mark.requirement("INJECT-classes")
def test_an_injection_repeats_exactly() -> None:
    def once() -> Injection:
        return inject(shop.create.plan, shop.create_world, Fault.PARTIAL_COMMIT)

    assert once() == once()
