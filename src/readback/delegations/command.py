"""A command as a delegate: the prompt on stdin, the answer on stdout, one process a turn.

Used by `readback delegate` and by Python programs. The description states how a conversation continues: by the
command's own session with a given id, or by the transcript on stdin.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid

import readback.systems as systems
from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.delegations.model.record import Turn
from readback.delegations.model.words import RESPONSE_MAX_BYTES
from readback.errors import ReadbackError, ToolError, UsageError
from readback.traces.format.strict_json import strict_json

TIMEOUT_DEFAULT_S = 600.0
OUTPUTS = ("text", "json")


@dataclass(frozen=True, slots=True)
class CommandDelegate:
    """The call of a command, without a shell.

    Attributes:
        argv: The program and its arguments.
        session_flag: Stands behind `argv` with an id. All turns of a delegation share the id.
        resume_flag: Replaces `session_flag` from the second turn on. Without flags stdin holds the conversation.
        output: "json" if stdout is an object with `response` and optional `tool_calls` and `tool_results`.
        env: Variables of our environment for the command, beside PATH, HOME, LANG and TZ.
    """

    argv: tuple[str, ...]
    session_flag: str = ""
    resume_flag: str = ""
    output: str = "text"
    env: tuple[str, ...] = ()
    cwd: str | None = None
    timeout_s: float = TIMEOUT_DEFAULT_S

    def __post_init__(self) -> None:
        """Check the description. Raises UsageError."""
        if not self.argv or not self.argv[0]:
            raise UsageError("A delegate needs a command.", remedy="Name it behind `--`.")
        if self.resume_flag and not self.session_flag:
            raise UsageError("--resume-flag goes with --session-flag.", remedy="Give both, or neither.")
        if self.output not in OUTPUTS:
            raise UsageError(f"{self.output!r:.40} is no form of output.", remedy=f"One of {', '.join(OUTPUTS)}.")

    def called(self, turn: Turn) -> tuple[list[str], str]:
        """Return the command of this turn and its stdin."""
        if not self.session_flag:
            return [*self.argv], turn.transcript
        flag = self.resume_flag if self.resume_flag and turn.attempt else self.session_flag
        return [*self.argv, flag, session_of(turn.ctx.tenant, turn.ctx.target, turn.delegation)], turn.prompt

    def __call__(self, turn: Turn) -> object:
        """Run one turn. Raises ToolError if the command fails or its answer is malformed. A reading then finds its
        effects.
        """
        argv, stdin = self.called(turn)
        env = {name: os.environ[name] for name in self.env if name in os.environ}
        # It works where the operator starts it, as a coding agent does; what it did is judged by the verifiers.
        executor = systems.CommandExecutor(
            name="delegate", cwd=self.cwd, env=env, timeout_s=self.timeout_s, apart=False
        )
        ran = executor.run(turn.ctx, argv, stdin=stdin)
        text = str(ran["stdout"])
        if ran.get("cut"):
            raise ToolError("The delegate's answer is too long to be kept.", remedy="What it did is being read back.")
        return text.rstrip("\n") if self.output == "text" else _answer(text)


def session_of(tenant: str, target: str, delegation: str) -> str:
    """Return the id of a delegation's conversation as a UUID. All turns share the id, also after a restart.

    `target` contains the delegation's name, since two delegations may use the same operation name.
    """
    digest = hashlib.sha256(json.dumps(["readback/session/1", tenant, target, delegation]).encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def _answer(text: str) -> Json:
    try:
        found = strict_json(text.encode(), "The delegate's answer", bytes_max=RESPONSE_MAX_BYTES)
    except ReadbackError as error:
        raise ToolError(f"The delegate's answer is no JSON: {error.message}") from error
    if not isinstance(found, dict) or not isinstance(found.get("response"), str):
        raise ToolError("The delegate's answer is no object with `response`.")
    return found
