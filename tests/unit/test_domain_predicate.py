"""Postconditions: three values, no default, and what a person is shown beside them."""

from __future__ import annotations

from itertools import product

import pytest

from readback.canon import Json
from readback.domain.predicate import Evaluation, Path, Postcondition, Truth, conjoin, look, shown_values
from readback.errors import InvariantError


def holds(**_: object) -> bool:
    return True


def test_a_postcondition_is_an_expression_or_a_callable_with_name_and_version() -> None:
    plain = Postcondition("paid", "authoritative.paid")
    assert (plain.source, plain.check_name, plain.check_version) == ("authoritative.paid", "", "")
    assert Postcondition("paid", check=holds, check_name="is_paid", check_version="2").source == "is_paid@2"
    with pytest.raises(InvariantError, match="not both"):
        Postcondition("paid")
    with pytest.raises(InvariantError, match="not both"):
        Postcondition("paid", "true", check=holds, check_name="is_paid", check_version="2")
    for name, version in (("", "2"), ("is_paid", ""), ("", "")):
        with pytest.raises(InvariantError, match="without a name or a version"):
            Postcondition("paid", check=holds, check_name=name, check_version=version)


def test_an_evaluation_alleges_nothing_by_itself() -> None:
    evaluation = Evaluation("paid", Truth.HOLDS, "authoritative.paid")
    assert (evaluation.reason, evaluation.values, evaluation.error, evaluation.group) == ("", (), None, None)
    assert evaluation.verifier_fault is False


def test_one_violated_outweighs_what_is_untold_and_that_outweighs_what_holds() -> None:
    for truths in product(Truth, repeat=3):
        expected = next(t for t in (Truth.VIOLATED, Truth.UNDETERMINED, Truth.HOLDS) if t in truths)
        assert conjoin(truths) is expected


def test_nothing_judged_is_no_success() -> None:
    with pytest.raises(InvariantError):
        conjoin(())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("order.lines[0].sku", "a"),
        ("order.lines[1].sku", "b"),
        ("order.lines[2].sku", None),
        ("order['due on']", "Friday"),
        ('order["due on"]', "Friday"),
        ("order._x1", 5),
        ("order.missing", None),
        ("order.lines.sku", None),
        ("order.lines[0].sku.more", None),
        ("order.tags.red", None),
        ("order.note.red", None),
        ("order.tags[0].red", None),
        ("order.note[0]", None),
        ("nothing", None),
        ("names['0']", "zero"),
        ("names[0]", None),
    ],
)
def test_a_path_leads_to_a_value_or_nowhere(path: str, value: Json) -> None:
    variables: dict[str, Json] = {
        "order": {"lines": [{"sku": "a"}, {"sku": "b"}], "due on": "Friday", "_x1": 5, "tags": ["red"], "note": "red"},
        "names": {"0": "zero"},
    }
    assert look(Path.named(path), variables) == value


def test_a_person_is_shown_short_values_and_the_sizes_of_long_ones() -> None:
    variables: dict[str, Json] = {
        "exact": "x" * 240,
        "long": "x" * 240 + "y",
        "object": {"a": 1, "b": 2},
        "list": [1, 2, 3],
        "empty": {},
        "none": [],
        "number": 7,
    }
    assert shown_values(map(Path.named, variables), variables) == (
        ("exact", "x" * 240),
        ("long", "x" * 240 + "\N{HORIZONTAL ELLIPSIS}"),
        ("object", "(object of 2)"),
        ("list", "(list of 3)"),
        ("empty", {}),
        ("none", []),
        ("number", 7),
    )
