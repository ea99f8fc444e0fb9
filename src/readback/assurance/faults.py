"""Errors of release gates, and of drafts from watched calls. Nothing is promoted or written after any of them."""

from __future__ import annotations

from readback.errors import InputError


class GatesError(InputError):
    """The gates cannot run with this input."""

    code = "gates"
    remedy_default = "Run `readback gates check --help` to see the inputs."


class HistoryError(GatesError):
    """The history cannot be used: no such ledger or folder, or bundles of another schema. Nothing was judged."""

    code = "gates.history"
    remedy_default = "Name a ledger, or a folder written by `readback gates capture`."


class IncumbentError(GatesError):
    """The contracts in force cannot be read from the named place: no such git ref, folder or ledger."""

    code = "gates.against"
    remedy_default = "Pass --against with a git ref, a folder of contract files, or a ledger."


class AcknowledgementError(GatesError):
    """A file of acknowledgements is malformed, or an acknowledgement no longer fits the examined change."""

    code = "gates.acknowledgement"
    remedy_default = "Check the change again, and copy the acknowledgement from the new report with a reason."


class ResultError(GatesError):
    """The file is no result of `readback gates check`, or its content was changed."""

    code = "gates.result"
    remedy_default = "Run `readback gates check --out DIR` again, and name DIR/result.json."


class WatchedCallsError(InputError):
    """The ledger holds too few watched calls of a tool for a proposal.

    A call counts if its record has a reading from after the call.
    """

    code = "input.watched-calls"
    remedy_default = "Watch more calls, for example in shadow mode, and run the command again."
