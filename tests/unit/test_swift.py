"""Frozen values that are made quickly stay frozen, equal, and what they were."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from readback.canon.swift import swift


@swift
@dataclass(frozen=True, slots=True)
class Value:
    one: int
    two: str = "two"
    three: list[int] = field(default_factory=list)


def test_a_swift_value_is_frozen_and_equal_like_any_other() -> None:
    value = Value(1, three=[3])
    assert (value, value.two, value.three) == (Value(1, "two", [3]), "two", [3])
    assert value != Value(2)
    assert isinstance(value, Value)
    assert type(value) is Value
    with pytest.raises(FrozenInstanceError):
        value.one = 2  # type: ignore[misc]
    assert repr(value) == "Value(one=1, two='two', three=[3])"


def test_a_swift_value_is_copied_replaced_and_pickled() -> None:
    value = Value(1)
    assert replace(value, two="other") == Value(1, "other")
    assert copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
    assert Value(1).three is not Value(1).three


def test_wrong_arguments_are_refused_as_ever() -> None:
    with pytest.raises(TypeError, match="one"):
        Value()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="four"):
        Value(1, four=4)  # type: ignore[call-arg]


def test_a_class_with_a_hook_after_its_init_is_refused() -> None:
    class Hooked:
        def __post_init__(self) -> None: ...

    with pytest.raises(TypeError, match="__post_init__"):
        swift(Hooked)
