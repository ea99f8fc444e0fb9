"""What a drill raises. Beside `errors`, since nothing but drills and their command knows of it.

DrillError (5)                      a drill, of whatever is claimed of a tool
├── DrillRefusedError (5)           it may not be held: nothing was called
├── DoubledEffectError (1)          the tool does not honour the key: two effects
├── AnswersDifferError (1)          one effect, and a second answer that says something else
└── DrillUndeterminedError (3)      it was held, and shows nothing
"""

from __future__ import annotations

from readback.canon.fault import ReadbackError


class DrillError(ReadbackError):
    """A drill could not show what the contract claims."""

    code = "drill"
    exit_code = 5


class DrillRefusedError(DrillError):
    """The drill may not be held: there is no safe twin, or what was asked for is not it. Nothing was called."""

    code = "drill.refused"
    remedy_default = "Declare a safe twin with the action's `.twin`, and drill that one."


class DoubledEffectError(DrillError):
    """Two calls under one key had two effects: the tool does not honour the key that its contract says it does."""

    code = "drill.two-effects"
    exit_code = 1
    remedy_default = "Take `honours_key` out of the contract until the tool does."


class AnswersDifferError(DrillError):
    """Two calls under one key had one effect, and the second answer differs where the contract relies on it."""

    code = "drill.answers-differ"
    exit_code = 1
    remedy_default = "Let the tool answer a repeated key as it answered the first, or do not rely on that field."


class DrillUndeterminedError(DrillError):
    """The drill was held and shows nothing: no effect was seen, or there is no way to see a second one."""

    code = "drill.undetermined"
    exit_code = 3
    remedy_default = "Give the contract a `find` by stamp, and a twin on which the action works."
