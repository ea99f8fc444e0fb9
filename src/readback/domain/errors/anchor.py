"""Errors of places where checkpoints are kept beside the ledger. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from readback.canon.fault import ReadbackError


class AnchorError(ReadbackError):
    """A place for checkpoints cannot be reached or written, or did not answer in time. No action fails by it."""

    code = "anchor.failed"
    exit_code = 6
    remedy_default = "Look whether the place is there and may be written; the checkpoint is offered again."


class AnchorRefusedError(AnchorError):
    """A place for checkpoints answered that it does not take this one."""

    code = "anchor.refused"
    remedy_default = "Look whether it knows this log and its key; the checkpoint is offered again, ever more seldom."
