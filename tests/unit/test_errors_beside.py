"""The errors beside the main list: each has a code and an exit code that scripts may rely on, and says what to do."""

from __future__ import annotations

import pytest

from readback.agent_errors import (
    DelegationHookError,
    ScriptCompileError,
    ScriptError,
    ScriptLimitError,
    ScriptsForkedError,
    ScriptsMissingError,
    ScriptUnavailableError,
)
from readback.errors import (
    NOT_STANDING,
    AnchorError,
    AnchorRefusedError,
    BackupError,
    BundleError,
    ClaimError,
    ContractError,
    ContractFileError,
    ErasedEvidenceError,
    ErasureError,
    FittingError,
    InputError,
    MalformedClaimError,
    ReadbackError,
    RestoreError,
    SettingsError,
    StoreError,
    TableMissingError,
    VerifierError,
)

CODES: list[tuple[type[ReadbackError], str, int, type[ReadbackError]]] = [
    (AnchorError, "anchor.failed", 6, ReadbackError),
    (AnchorRefusedError, "anchor.refused", 6, AnchorError),
    (ClaimError, "claim", 2, InputError),
    (MalformedClaimError, "claim.malformed", 2, ClaimError),
    (ErasureError, "erasure.at-work", 2, InputError),
    (BackupError, "backup", 6, StoreError),
    (RestoreError, "restore", 6, StoreError),
    (ContractFileError, "contract.file", 5, ContractError),
    (FittingError, "contract.fitting", 5, ContractError),
    (ScriptError, "delegation.script", 5, VerifierError),
    (ScriptLimitError, "delegation.script-limit", 5, ScriptError),
    (ScriptUnavailableError, "delegation.script-unavailable", 5, ScriptError),
    (ScriptsForkedError, "delegation.scripts-forked", 5, ScriptUnavailableError),
    (ScriptCompileError, "delegation.script-compile", 5, ContractError),
    (DelegationHookError, "delegation.hook", 5, ContractError),
    (ScriptsMissingError, "delegation.scripts-missing", 5, SettingsError),
    (BundleError, "bundle", 2, InputError),
    (TableMissingError, "bundle.table", 2, InputError),
    (ErasedEvidenceError, "evidence.erased", 1, ReadbackError),
]


@pytest.mark.parametrize(("kind", "code", "exit_code", "above"), CODES)
def test_each_error_keeps_its_code_its_exit_code_and_its_place(
    kind: type[ReadbackError], code: str, exit_code: int, above: type[ReadbackError]
) -> None:
    assert (kind.code, kind.exit_code) == (code, exit_code)
    assert kind.__bases__ == (above,)
    error = kind("What happened.")
    assert (error.code, error.exit_code) == (code, exit_code)
    assert str(error).startswith("What happened. Next: ")


def test_an_action_that_was_refused_for_a_fallen_claim_says_so_by_its_code() -> None:
    assert NOT_STANDING == "claim.not-standing"
