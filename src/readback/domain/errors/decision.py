"""Errors of decision types and of imported files, hung into the tree of `errors`."""

from __future__ import annotations

from readback.domain.errors import ContractError, InputError


class EnvelopeError(ContractError):
    """An envelope that cannot be enforced. `details["problems"]` holds every fault, each with its place.

    Nothing runs under it.
    """

    code = "decision.envelope"
    remedy_default = "Correct all that is named; `readback decisions check` names all faults."


class BindingError(ContractError):
    """A contract that does not offer what the envelope demands of an action. `details["problems"]` holds all of it."""

    code = "decision.binding"
    remedy_default = "Give the contract what is named, or let another decision type govern the action."


class VerifierLoadError(ContractError):
    """A custom verifier that cannot be used: no file, no `verify`, an import that fails, a name that is taken."""

    code = "decision.verifier"
    remedy_default = "Put NAME.py with a function `verify(context)` into the folder of verifiers."


class DecisionOrderError(InputError):
    """The steps of a decision were taken out of their order, or one was taken twice. Nothing was done by it."""

    code = "decision.order"
    remedy_default = "First the context, then the plan, then act, abstain or bypass, once each."


class ForeignFileError(InputError):
    """A file of another system that breaks its own format. `details["problems"]` holds every reason.

    Nothing of it was used.
    """

    code = "import.file"
    remedy_default = "Ask whoever wrote the file for one that keeps its own format; nothing is guessed here."
