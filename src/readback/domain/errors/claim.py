"""What is raised about claims. Beside `errors`, since only claims know of it.

ClaimError (2)                      something was to be said of a claim that cannot be said
└── MalformedClaimError (2)         what was given is no claim id
"""

from __future__ import annotations

from typing import Final

from readback.domain.errors import InputError

NOT_STANDING: Final = "claim.not-standing"
"""The code of an action that was refused because something that it was planned upon does not stand."""


class ClaimError(InputError):
    """A claim cannot be retracted or reinstated as asked. Nothing was changed. Codes: claim.not-offered, .self,
    .signature, .malformed.
    """

    code = "claim"
    remedy_default = "Look at `readback claims list` and `readback claims check ID`."


class MalformedClaimError(ClaimError):
    """It is no claim id: that is an action's id with `:happened` or `:holds` behind it."""

    code = "claim.malformed"
    remedy_default = "Pass the id of a claim, of an action, or an outcome."
