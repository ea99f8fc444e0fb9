"""Errors of contract files. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from readback.domain.errors import ContractError


class ContractFileError(ContractError):
    """Contract files that cannot be used. `details["problems"]` holds every fault of every file, each with its place.

    Nothing of any of the files is loaded.
    """

    code = "contract.file"
    remedy_default = "Correct all that is named; `readback contracts check` names all faults."


class FittingError(ContractError):
    """What a contract file names cannot be had here: an extra that is not installed, or a tool of a server."""

    code = "contract.fitting"
    remedy_default = "Install the extra that is named, or run it where it can be had."


class UndecidedError(ContractError):
    """A value of a drafted contract that a person has to decide, and has not. Nothing of the file is used."""

    code = "contract.undecided"
    remedy_default = "Delete the word DECIDE to take what follows it, or write what is right in its place."
