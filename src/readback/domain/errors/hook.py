"""Errors of the hooks of coding agents. Drawn into the tree at the top of `errors`."""

from __future__ import annotations

from readback.domain.errors import InputError, SettingsError


class HookInputError(InputError):
    """What the agent handed to a hook is not what its hooks are documented to be handed. The tool is held back."""

    code = "hook.input"
    remedy_default = "Look whether the agent is recent enough, and whether this hook is set up for this event."


class HookFileError(SettingsError):
    """The file that says which tools are governed cannot be used. Nothing of it is, and the tool is held back."""

    code = "hook.file"
    remedy_default = "Correct what is named; docs/coding-agents.md has every key."


class HookOrderError(InputError):
    """A tool was called, and no attempt of the call is on record: the hook before it did not run, or was given up."""

    code = "hook.unrecorded"
    remedy_default = "Take its result for unknown: read what it was to change, and tell nobody that it is done."
