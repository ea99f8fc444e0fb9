"""The tree of errors: one root, stable codes, exit codes as the command line promises them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest

import readback.errors as errors
from readback.agent_errors import CallFailedError, DelegationFailedError
from readback.errors import (
    AnchorError,
    CanonError,
    ContractError,
    DrillError,
    ErasedEvidenceError,
    ExpressionError,
    HonestyError,
    InputError,
    InvariantError,
    NotVerifiedError,
    ReadbackError,
    SettingsError,
    StoreError,
    ToolError,
    UnknownOutcomeError,
    VerifierError,
)
from readback.log.fault import LogError
from readback.traces.format.fault import TraceError


def _tree(root: type[ReadbackError]) -> Iterator[type[ReadbackError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith("readback."):
            yield from _tree(child)


EVERY = list(_tree(ReadbackError))


@pytest.mark.requirement("TRUTH-words-error-fault")
@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_has_a_code_an_exit_code_and_a_meaning(kind: type[ReadbackError]) -> None:
    assert re.fullmatch(r"[a-z]+([.-][a-z0-9]+)*", kind.code)
    assert kind.exit_code in {1, 2, 3, 5, 6}
    assert "code" in vars(kind), "each says its own code"
    assert kind.__doc__ is not None
    assert len(kind.__doc__) > 20
    assert kind is ReadbackError or kind.__name__.endswith("Error")


@pytest.mark.requirement("TRUTH-words-error-fault")
def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in EVERY]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("branch", "exit_code"),
    [
        (InputError, 2),
        (HonestyError, 2),
        (ContractError, 5),
        (SettingsError, 5),
        (VerifierError, 5),
        (StoreError, 6),
        (InvariantError, 6),
    ],
)
def test_a_branch_ends_as_the_command_line_promises(branch: type[ReadbackError], exit_code: int) -> None:
    assert {kind.exit_code for kind in _tree(branch)} == {exit_code}


def test_no_error_ends_as_success() -> None:
    assert all(kind.exit_code != 0 for kind in EVERY)


def test_every_error_hangs_on_one_branch() -> None:
    branches = {
        CanonError,
        AnchorError,
        ErasedEvidenceError,
        DelegationFailedError,
        DrillError,
        LogError,
        InputError,
        HonestyError,
        ContractError,
        SettingsError,
        VerifierError,
        ToolError,
        StoreError,
        NotVerifiedError,
        InvariantError,
        TraceError,
        CallFailedError,
        errors.MetricsError,
    }
    assert branches <= set(ReadbackError.__subclasses__())
    for kind in EVERY[1:]:
        assert sum(issubclass(kind, branch) for branch in branches) == 1, kind


def test_the_drawn_tree_names_every_error_and_no_other() -> None:
    drawn = set(re.findall(r"\b[A-Z]\w+Error\b", errors.__doc__ or ""))
    own = {kind.__name__ for kind in EVERY if kind.__module__ == "readback.errors"}
    assert own <= drawn
    assert drawn <= {kind.__name__ for kind in EVERY} | {"TypeError"}


def test_the_public_list_is_complete() -> None:
    assert set(errors.__all__) >= {kind.__name__ for kind in EVERY if kind.__module__ == errors.__name__}
    assert list(errors.__all__) == sorted(errors.__all__)


def test_an_error_says_what_happened_and_what_to_do_next() -> None:
    error = errors.StoreLockedError("The database is locked.")
    assert str(error).startswith("The database is locked. Next: ")
    assert error.message == "The database is locked."
    assert str(ReadbackError("Only this.")) == "Only this."
    assert str(errors.StoreLockedError("Locked.", remedy="Wait.")) == "Locked. Next: Wait."


def test_details_are_kept_and_cannot_be_shared_by_accident() -> None:
    given = {"a": 1}
    error = InputError("x", details=given)
    given["a"] = 2
    assert error.details == {"a": 1}
    assert InputError("y").details == {}


def test_an_honesty_error_is_a_type_error() -> None:
    assert issubclass(HonestyError, TypeError)


def test_an_expression_error_carries_its_place() -> None:
    error = ExpressionError("bad", source="1 +", column=4, code="expression.syntax")
    assert (error.code, error.column, error.details["source"]) == ("expression.syntax", 4, "1 +")
    assert ExpressionError.code == "expression"


def test_what_is_not_verified_ends_by_its_state() -> None:
    marker = object()
    error = NotVerifiedError("held", outcome=marker, exit_code=4)
    assert (error.outcome, error.exit_code, NotVerifiedError.exit_code) == (marker, 4, 3)


def test_the_worst_case_carries_the_unknown_outcome() -> None:
    marker = object()
    assert UnknownOutcomeError("the append failed", outcome=marker).outcome is marker


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_an_error_survives_a_process_boundary(kind: type[ReadbackError]) -> None:
    error = kind("what", remedy="do this", details={"k": [1]})
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 -- our own bytes
    assert (type(again), str(again), again.details) == (kind, str(error), dict(error.details))
    plain = pickle.loads(pickle.dumps(kind("what")))  # noqa: S301 -- a pool's worker lost each that has no details
    assert (type(plain), plain.code, plain.message) == (kind, kind("what").code, "what")
