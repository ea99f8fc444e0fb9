"""Dataclasses that are native behave as the standard ones in everything that anybody does with one."""

from __future__ import annotations

import copy
import dataclasses
import enum
import gc
import inspect
import pickle
import re
import sys
import weakref
from collections.abc import Callable, Mapping
from dataclasses import InitVar, field, fields, replace
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import msgspec
import pytest

import readback.client.async_client  # noqa: F401 - with all its values
from readback.canon import frozen
from readback.canon.values import Json
from readback.domain.outcome.outcome import Outcome

HAS_PART_IN_COLLECTING: Final = 1 << 14
"""Py_TPFLAGS_HAVE_GC."""


def shapes(made: Callable[..., Any]) -> dict[str, Any]:
    """Classes of every kind that is written in this package, by one decorator."""

    @made(frozen=True, slots=True)
    class Plain:
        """With words of its own."""

        name: str
        number: int = 3
        many: tuple[int, ...] = field(default_factory=tuple)
        shared: ClassVar[str] = "all"

        def doubled(self) -> int:
            return self.number * 2

        @classmethod
        def usual(cls) -> Any:
            return cls("usual")  # type: ignore[call-arg]

    @made(frozen=True, slots=True)
    class Empty:
        pass

    @made(frozen=True, slots=True)
    class One:
        value: object

    @made(frozen=True, slots=True)
    class Partly:
        name: str
        raised: object = field(default=None, repr=False, compare=False)
        size: int = field(default=1, repr=False)
        note: str = field(default="", compare=False)

    @made(slots=True)
    class Open:
        items: list[int] = field(default_factory=list)
        later: int = field(init=False)
        hidden: str = field(default="x", repr=False, compare=False)

        def __post_init__(self) -> None:
            self.later = len(self.items)

    @made
    class Loose:
        a: int
        b: str = "b"

    @made(frozen=True)
    class Above:
        a: int

    @made(frozen=True, slots=True)
    class Below(Above):
        b: int = 2

    @made(frozen=True, slots=True)
    class OwnEqual:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    @made(frozen=True, slots=True, order=True)
    class Ordered:
        a: int
        b: int = 0

    @made(frozen=True, slots=True, kw_only=True)
    class Named:
        a: int
        b: int = 0

    @made(slots=True)
    class Taking:
        a: int
        more: InitVar[int] = 1  # type: ignore[assignment]
        sum: int = field(init=False, default=0)

        def __post_init__(self, more: int) -> None:
            self.sum = self.a + more

    every = (Plain, Empty, One, Partly, Open, Loose, Above, Below, OwnEqual, Ordered, Named, Taking)
    return {each.__name__: each for each in every}


QUICK, STANDARD = shapes(frozen.dataclass), shapes(dataclasses.dataclass)
GIVEN: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Plain": [(("a",), {}), (("a", 4), {"many": (1,)}), ((), {"name": "a", "number": 3})],
    "Empty": [((), {})],
    "One": [((1,), {}), (("x",), {})],
    "Partly": [(("a",), {}), (("a", 1, 2, "b"), {}), (("a",), {"raised": [1]})],
    "Open": [((), {}), (([1, 2],), {"hidden": "y"})],
    "Loose": [((1,), {}), ((1, "c"), {})],
    "Above": [((1,), {})],
    "Below": [((1,), {}), ((1, 3), {})],
    "OwnEqual": [((1,), {}), ((2,), {})],
    "Ordered": [((1,), {}), ((1, 2), {})],
    "Named": [((), {"a": 1}), ((), {"a": 1, "b": 2})],
    "Taking": [((1,), {}), ((1, 5), {})],
}


def seen(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All that can be seen of an instance."""
    one, same = kind(*args, **kwargs), kind(*args, **kwargs)
    hashed: object
    try:
        hashed = hash(one) == hash(same)
    except TypeError as error:
        hashed = str(error)
    return {
        "repr": repr(one).replace("frozen.dataclass", "").split("<locals>.")[-1],
        "equal": [one == same, one != same, one == 1, one == args],
        "hash": hashed,
        "fields": [(f.name, f.type, f.init, f.repr, f.compare, getattr(one, f.name)) for f in fields(one)],
        "dict": dataclasses.asdict(one),
        "match": kind.__match_args__,
        "slots": sorted(getattr(kind, "__slots__", ["none"])),
        "doc": kind.__doc__.partition("(")[0],
        "copied": copy.deepcopy(one) == one,
        "params": kind.__dataclass_params__.frozen,
        "kinds": [str(each.kind) for each in inspect.signature(kind).parameters.values()],
        "names": [*inspect.signature(kind).parameters],
        "has dict": hasattr(one, "__dict__"),
    }


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_an_instance_looks_as_one_of_a_standard_class(name: str) -> None:
    for args, kwargs in GIVEN[name]:
        quick, standard = seen(QUICK[name], args, kwargs), seen(STANDARD[name], args, kwargs)
        assert quick == standard
        with pytest.raises(TypeError):
            QUICK[name](*args, **kwargs, nothing=1)


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_what_is_frozen_refuses_each_change_as_a_standard_one_does(name: str) -> None:
    args, kwargs = GIVEN[name][0]
    for kind in (QUICK[name], STANDARD[name]):
        one = kind(*args, **kwargs)
        for each in fields(one):
            before = getattr(one, each.name)
            if not kind.__dataclass_params__.frozen:
                setattr(one, each.name, before)
                continue
            with pytest.raises(AttributeError):  # of which the standard one's error is a kind
                setattr(one, each.name, before)
            with pytest.raises(AttributeError):
                delattr(one, each.name)
            if isinstance(one, msgspec.Struct) and sys.version_info < (3, 13):
                with pytest.raises(TypeError):  # past which the standard ones can be gone
                    object.__setattr__(one, each.name, before)
            assert getattr(one, each.name) is before
        if name != "Loose":  # which takes any name, as the standard one does
            with pytest.raises((AttributeError, TypeError)):
                one.unknown = 1


def test_two_of_different_classes_or_values_differ_and_an_empty_one_is_like_the_next() -> None:
    plain, one, empty = QUICK["Plain"], QUICK["One"], QUICK["Empty"]
    assert plain("a") != plain("b")
    assert len({plain("a"), plain("a", 3), plain("a", 4)}) == 2
    assert one((1,)) != one(1)
    assert empty() == empty()
    assert QUICK["Open"]([1], "y") == QUICK["Open"]([1])  # `hidden` is compared by neither


def test_one_is_replaced_extended_and_matched_as_a_standard_one() -> None:
    plain = QUICK["Plain"]
    assert replace(plain("a"), number=7) == plain("a", 7)
    assert plain.usual().doubled() == 6
    match plain("a", 5):
        case plain(name, number):
            assert (name, number) == ("a", 5)
        case _:
            pytest.fail("it does not match")


def test_one_that_is_derived_has_both_ones_fields_and_methods() -> None:
    plain = QUICK["Plain"]

    @frozen.dataclass(frozen=True, slots=True)
    class Extended(plain):  # type: ignore[misc,valid-type]
        more: int = 1
        lists: list[int] = field(default_factory=list)

        def tripled(self) -> int:
            return int(self.number) * 3

    one = Extended("a", more=2)
    assert isinstance(one, plain)
    assert (one.more, one.lists, one.doubled(), one.tripled()) == (2, [], 6, 9)
    assert one.lists is not Extended("a").lists
    assert [f.name for f in fields(one)] == ["name", "number", "many", "more", "lists"]
    assert replace(one, number=7) == Extended("a", 7, more=2)
    assert one != plain("a")
    with pytest.raises(TypeError, match="must be frozen exactly if its base class is"):
        frozen.dataclass(slots=True)(type(plain)("Loosened", (plain,), {"__annotations__": {"x": "int"}, "x": 1}))


def test_one_that_is_of_a_type_of_types_is_native_too() -> None:
    T = TypeVar("T")

    @frozen.dataclass(frozen=True, slots=True)
    class Holding(Generic[T]):
        value: T
        other: str = ""

    assert isinstance(Holding[int](1), msgspec.Struct)
    assert Holding(1) == Holding[int](1, "")


def test_a_field_is_put_right_before_anybody_sees_it() -> None:
    @frozen.dataclass(frozen=True, slots=True)
    class Listed:
        names: tuple[str, ...]

        def __post_init__(self) -> None:
            frozen.settle(self, "names", tuple(self.names))

    assert Listed(["a"]).names == ("a",)  # type: ignore[arg-type]


def test_the_plain_kinds_are_native_and_the_others_are_the_standard_ones() -> None:
    native = {name for name, kind in QUICK.items() if issubclass(kind, msgspec.Struct)}
    assert native == {"Plain", "Empty", "One", "Partly"}


@pytest.mark.parametrize("kinds", [QUICK, STANDARD], ids=["native", "standard"])
def test_a_field_outside_comparison_makes_no_difference(kinds: dict[str, Any]) -> None:
    one, other, larger = kinds["Partly"]("a", 1), kinds["Partly"]("a", [2], note="n"), kinds["Partly"]("a", size=2)

    assert one == other
    assert not one != other  # noqa: SIM202 - the other operator
    assert hash(one) == hash(other)
    assert one != larger
    assert not one == larger  # noqa: SIM201 - the other operator
    assert one != kinds["One"]("a")
    assert "raised" not in repr(one)
    assert repr(one).endswith("Partly(name='a', note='')")


def test_the_value_returned_for_every_action_is_native() -> None:
    assert issubclass(Outcome, msgspec.Struct)


def test_a_default_that_could_be_changed_is_refused_as_it_was() -> None:
    for made in (frozen.dataclass, dataclasses.dataclass):
        with pytest.raises(ValueError, match="mutable default"):

            @made(frozen=True, slots=True)
            class Shared:
                items: list[int] = []  # noqa: RUF012


@frozen.dataclass(frozen=True, slots=True)
class Sent:
    """Known to pickle by its name."""

    a: int
    b: tuple[str, ...] = ()


def test_one_that_is_frozen_with_slots_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent(1, ("x",)))) == Sent(1, ("x",))  # noqa: S301 - its own bytes


def test_one_that_holds_itself_is_shown_once() -> None:
    loop: list[Any] = []
    one = QUICK["One"](loop)
    loop.append(one)
    assert repr(one).endswith("One(value=[...])")


class Colour(enum.Enum):
    RED = "red"


@frozen.dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    colour: Colour = Colour.RED
    kind: Literal["Callable", "object"] = "object"


@frozen.dataclass(frozen=True, slots=True)
class Branch:
    leaves: tuple[Leaf, ...]
    told: Mapping[str, Json]
    one: Leaf | None = None


@frozen.dataclass(slots=True)
class Changing:
    name: str


@frozen.dataclass(frozen=True, slots=True)
class HoldsAnything:
    value: object


@frozen.dataclass(frozen=True, slots=True)
class HoldsWhatChanges:
    value: Changing


@frozen.dataclass(frozen=True, slots=True)
class HoldsWhatComesLater:
    value: Later | None


@frozen.dataclass(frozen=True, slots=True)
class HoldsWhatIsElsewhere:
    value: enum.Enum


@frozen.dataclass(frozen=True, slots=True)
class Later:
    name: str


@frozen.dataclass(frozen=True, slots=True)
class LeafThatHoldsAnything(Leaf):
    value: object = None


HOLDS_ANYTHING = (
    HoldsAnything, HoldsWhatChanges, HoldsWhatComesLater, HoldsWhatIsElsewhere, LeafThatHoldsAnything, Changing,
)  # fmt: skip


@pytest.mark.parametrize("kind", [Leaf, Branch, Later])
def test_what_holds_values_alone_is_not_looked_through_for_circles(kind: Any) -> None:
    values = {"name": "a", "leaves": (Leaf("a"),), "told": {"a": [1]}}
    made = kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})

    assert not gc.is_tracked(made)
    assert not kind.__flags__ & HAS_PART_IN_COLLECTING


@pytest.mark.parametrize("kind", HOLDS_ANYTHING)
def test_what_may_hold_anything_is_looked_through(kind: Any) -> None:
    assert kind.__flags__ & HAS_PART_IN_COLLECTING


@pytest.mark.parametrize("kind", [HoldsAnything, LeafThatHoldsAnything])
def test_a_circle_through_a_value_is_collected(kind: Any) -> None:
    class Seen:
        pass

    seen = Seen()
    seen.circle = kind(**{"name": "a"} if kind is LeafThatHoldsAnything else {}, value=seen)  # type: ignore[attr-defined]
    gone = weakref.ref(seen)
    del seen
    gc.collect()

    assert gone() is None


def test_of_the_values_of_this_package_only_those_are_spared_that_can_name_no_callable_and_no_object() -> None:
    for kind in _natives():
        if not kind.__flags__ & HAS_PART_IN_COLLECTING:
            named = " ".join(str(each.type) for each in fields(kind))
            assert not re.search(r"\b(object|Any|Callable|Generator|Awaitable|BaseException|Exception)\b", named), kind


def _natives() -> list[Any]:
    found, left = [], [msgspec.Struct]
    while left:
        below = left.pop().__subclasses__()
        left += below
        found += [each for each in below if each.__module__.startswith("readback.")]
    assert len(found) > 100, "the package's values are loaded"
    return found
