"""The error of an action on a file of Readback's own. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from readback.domain.errors import SandboxEscapeError


class OwnFileError(SandboxEscapeError):
    """An action would change a file of Readback's own: contract, settings, ledger, key, verifier or hook."""

    code = "input.own-file"
    remedy_default = "Give the executor a folder of its own, which holds no contracts, settings, ledger or keys."
