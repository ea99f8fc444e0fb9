"""One hook's access to the ledger, for one session of the agent and the contracts of the hook file.

Each hook is a process: it opens everything, acts once and closes everything. A later hook finds the action by session
and call id, even after a crash of the earlier process.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import readback.bootstrap as bootstrap
from readback.agent_errors import HookFileError
from readback.canon import Json, ReadbackError, json_text, parse_json, payload_bytes, sha256_hex
from readback.canon.frozen import dataclass
from readback.client.files import FileAction, contract_files
from readback.client.proposal import Definition, Proposal
from readback.client.session import Session
from readback.domain.action.action import Action
from readback.domain.idempotency import request_hash
from readback.domain.outcome.outcome import Outcome
from readback.domain.state import State
from readback.domain.verification.observation import one_line
from readback.drivers.driver_sync import SyncDriver
from readback.drivers.interpreter import Parked
from readback.engine import external_attempts
from readback.engine.compiled_contract import Request
from readback.engine.coordinator import ActionHandle
from readback.engine.effects import Effects
from readback.engine.resume import fold
from readback.engine.stages.approve import waits
from readback.errors import InputError
from readback.hooks.hook_file import HookFile
from readback.hooks.protocol import ToolCall
from readback.ports.storage.store import ActionFilter, Projection
from readback.systems.trace_headers import from_environment

# Parser of `git commit` commands: the message, and the committed paths.

PATTERN_MAX_CHARACTERS: Final = 900
_COMMAND: Final = re.compile(r"\s*git\s+commit(?=\s|$)")
_HEREDOC: Final = re.compile(r"\$\(cat <<'(\w+)'\n(?:(.*?)\n)??\1\n\s*\)", re.DOTALL)
_PLACE: Final = "\ue000"
"""Placeholder for the text of a here-document while the rest is parsed."""
_PUT_AWAY: Final = re.compile(rf"{_PLACE}(\d+){_PLACE}")
_QUOTED: Final = re.compile(r"\\.|'[^']*'", re.DOTALL)
"""Text free of shell expansion."""
_WITH_VALUE: Final = frozenset(
    {
        "--message", "--file", "--reuse-message", "--reedit-message", "--author", "--date", "--template", "--cleanup",
        "--trailer", "--fixup", "--squash", "--pathspec-from-file",
    }
)  # fmt: skip
_SHORT_WITH_VALUE: Final = {
    "m": "--message",
    "F": "--file",
    "C": "--reuse-message",
    "c": "--reedit-message",
    "t": "--template",
}
_ATTACHED: Final = frozenset("uS")
"""Short options with an optional value in the same word."""
_SHORT: Final = {"a": "--all", "i": "--include", "o": "--only", "p": "--patch"}
_OLD_TIME: Final = frozenset({"--amend", "--date", "--reuse-message", "--reedit-message"})
_OTHER_TEXT: Final = frozenset({"--file", "--reuse-message", "--reedit-message", "--template", "--fixup", "--squash"})
_SOME_PATHS: Final = frozenset({"--include", "--only", "--patch", "--interactive", "--pathspec-from-file"})


_UNKNOWN: Final[dict[str, Json]] = {
    "message": "", "pattern": "", "amend": False, "fresh": False, "takes": "paths",
}  # fmt: skip
"""For an unparsable command: any message, and any changed path."""
COMMIT_FIELDS: Final = frozenset(_UNKNOWN)


def commit_of(command: str) -> dict[str, Json]:
    """Parse a `git commit` command.

    Returns:
        message: The message; "" if absent or unknown.
        pattern: RE2 pattern of the first line's words, in any case and with any white space between words.
        amend: Whether the commit replaces the last commit.
        fresh: Whether the author time equals the commit time.
        takes: "index", "tracked" (all files known to git) or "paths".
    """
    begun = _COMMAND.match(command)
    if begun is None:
        return {**_UNKNOWN}
    texts: list[str] = []

    def put_away(found: re.Match[str]) -> str:
        texts.append((found[2] or "").rstrip("\n"))
        return f"{_PLACE}{len(texts) - 1}{_PLACE}"

    rest = _HEREDOC.sub(put_away, command[begun.end() :])
    unknown = not {"$", "`"}.isdisjoint(_QUOTED.sub("", rest))
    try:
        words = shlex.split(rest)
    except ValueError:
        return {**_UNKNOWN}
    asked, messages, paths = _options(words)
    message = ""
    if not unknown and not asked & _OTHER_TEXT:
        message = _cleaned(
            "\n\n".join(re.sub(rf"{_PLACE}(\d+){_PLACE}", lambda m: texts[int(m[1])], m) for m in messages)
        )
    takes = "paths" if paths or asked & _SOME_PATHS else "tracked" if "--all" in asked else "index"
    return {
        "message": message,
        "pattern": _pattern(message),
        "amend": "--amend" in asked,
        "fresh": not asked & _OLD_TIME or "--reset-author" in asked,
        "takes": takes,
    }


def _options(words: list[str]) -> tuple[set[str], list[str], bool]:
    """Return the options by long name, the messages in order, and whether the command names paths."""
    asked: set[str] = set()
    messages: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            return asked, messages, next(left, None) is not None
        if word.startswith("--"):
            name, sign, value = word.partition("=")
            asked.add(name)
            if name in _WITH_VALUE and not sign:
                value = next(left, "")
            if name == "--message":
                messages.append(value)
        elif word.startswith("-") and len(word) > 1:
            _short(word[1:], asked, messages, left)
        else:
            return asked, messages, True
    return asked, messages, False


def _short(letters: str, asked: set[str], messages: list[str], left: Iterator[str]) -> None:
    """Parse `-am text`: each letter is an option. The first option with a value takes the rest of the word."""
    for at, letter in enumerate(letters):
        if letter in _SHORT_WITH_VALUE:
            value = letters[at + 1 :] or next(left, "")
            asked.add(_SHORT_WITH_VALUE[letter])
            if letter == "m":
                messages.append(value)
            return
        if letter in _ATTACHED:
            return
        if letter in _SHORT:
            asked.add(_SHORT[letter])


def _cleaned(message: str) -> str:
    """Clean a message like git: no trailing white space, and no runs of empty lines."""
    lines = [line.rstrip() for line in message.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _pattern(message: str) -> str:
    words = message.partition("\n")[0].split()
    made = r"(?i)(?:^|\W)" + r"\s+".join(map(_literal, words)) + r"(?:$|\W)"
    return made if words and len(made) <= PATTERN_MAX_CHARACTERS else r"$^x"


def _literal(word: str) -> str:
    return re.sub(r"([!-/:-@\[-^`{-~])", r"\\\1", word)


UNGOVERNED: Final = "ungoverned_tool"
OWN_CONTRACTS: Final = Path(__file__).with_name("ungoverned.yaml")
PAGE: Final = 100
LOOKED_BACK_MAX: Final = 2_000
"""How many of a session's newest actions are searched for a call."""
ABOUT_MAX_CHARACTERS: Final = 200
_WORDS: Final = {"Bash": frozenset({"description"})}
"""Arguments for human readers, without effect."""
_PLACED: Final = frozenset({"Bash"})
"""Tools acting in the agent's folder, without an argument for the folder."""
_ABOUT: Final = ("command", "file_path", "notebook_path", "path", "url")


@dataclass(frozen=True, slots=True)
class Where:
    """Ledger, tenant and principal; "" or None where the hook file or the settings decide."""

    url: str | None = None
    tenant: str | None = None
    principal: str | None = None
    shadow: bool = False
    """Whether contracts run in shadow mode, as far as the settings allow."""


ANYWHERE: Final = Where()


class HookSession:
    """The ledger and the contracts of one hook."""

    def __init__(self, session: Session, actions: Mapping[str, FileAction]) -> None:
        self.session = session
        self.actions = actions
        self.driver = SyncDriver(session.store, session.runtime, session.courier)

    @property
    def silent(self) -> bool:
        """Whether the caller asks for shadow mode: a call without a contract is reported to no agent either."""
        return self.session.scope.shadow.asked

    # --- acting ------------------------------------------------------------------------------------------------

    def hand_out(
        self, action: FileAction, call: ToolCall, given: Mapping[str, Json]
    ) -> external_attempts.ExternalAttempt:
        """Commit the attempt. Raises the errors of `Readback.run` for an invalid proposal."""
        proposal = action(**given)
        waiting = self._waiting(proposal)
        request = self.session.request(proposal, waiting or call.operation, None, call.agent)
        handed = self.driver.drive(self._handing(replace(request, outside=True)))
        assert not isinstance(handed, Parked)
        return handed

    def _handing(self, request: Request) -> Effects[external_attempts.ExternalAttempt]:
        s = self.session
        return external_attempts.start_external(s.engine, request, s.scope, s.plan_of, ActionHandle())

    def report(self, action_id: str, said: external_attempts.Report, wait_us: int) -> Outcome:
        """Record the attempt's end, and read back. The outcome stays pending if reading takes longer than `wait_us`."""
        s = self.session
        work = external_attempts.complete_external(s.engine, action_id, s.scope.tenant, s.plan_of, said)
        told = self.driver.drive(work, s.runtime.now_us() + wait_us)
        return self.outcome(action_id) if isinstance(told, Parked) else told

    def outcome(self, action_id: str) -> Outcome:
        """Return the current outcome from the ledger."""
        told = self.driver.drive(self.session.look(action_id))
        assert not isinstance(told, Parked)
        return told

    def go_on(self, action_id: str) -> None:
        """Read now, and proceed without waiting."""
        self.session.store.make_due(action_id, self.session.runtime.now_us())
        self.driver.drive(self.session.advance(action_id, self.session.scope.tenant))

    # --- finding -----------------------------------------------------------------------------------------------

    def run(self, most: int = LOOKED_BACK_MAX) -> Iterator[Projection]:
        """Yield the actions of the agent's session, newest first."""
        before, seen = "", 0
        tenant, run = self.session.scope.tenant, self.session.scope.run
        while seen < most:
            page = self.session.store.page(ActionFilter(tenant, run=run, before_id=before, limit=PAGE))
            for stored in page:
                before = stored.projection.action_id
                yield stored.projection
            seen += len(page)
            if len(page) < PAGE:
                return

    def find(self, call: ToolCall, contracts: Set[str]) -> str:
        """Return the action of this call, or "". `contracts`: the contracts able to govern the tool.

        An approved action belongs to a later call of the same kind. It is found as the only open action with equal
        arguments.
        """
        open_: list[str] = []
        others = False
        for each in self.run():
            if each.operation == call.operation:
                if self._is_of(each, call, contracts):
                    return each.action_id
                others = True  # another tool's call with the same id
            elif each.state == State.EXECUTING and each.contract in contracts and self._fits(each.action_id, call):
                open_.append(each.action_id)
        return open_[0] if len(open_) == 1 and not others else ""

    def handed_out(self, action_id: str) -> bool:
        """Return whether an attempt may have been made. A denied action has no attempt."""
        action = fold(self.session.store.events(action_id))
        return action is not None and bool(action.attempts)

    def agent_of(self, action_id: str) -> str:
        """Return the calling inner agent; "" for the main agent."""
        action = fold(self.session.store.events(action_id))
        return "" if action is None else str(action.context.get("step", ""))

    def _is_of(self, each: Projection, call: ToolCall, contracts: Set[str]) -> bool:
        """Return whether the action belongs to this tool. Another tool's answer is no evidence about the action."""
        if each.contract == UNGOVERNED:
            return self._asked(each.action_id).get("tool") == call.tool
        return each.contract in contracts

    def _fits(self, action_id: str, call: ToolCall) -> bool:
        action = fold(self.session.store.events(action_id))
        if action is None or action.approval is None or action.contract not in self.actions:
            return False  # the call itself reports the end
        governing = self.actions[action.contract]
        try:
            _, requested = governing.arguments.bind((), arguments_of(governing, call))
        except InputError:
            return False
        return _asks(action, governing, requested)

    def _waiting(self, proposal: Proposal) -> str:
        """Return the operation of an action awaiting approval for the same request, or ""."""
        definition = proposal.definition
        if definition.plan.contract.approval is None:
            return ""
        for each in self.run():
            if each.contract != definition.name or each.hold == "":
                continue
            action = fold(self.session.store.events(each.action_id))
            if action is not None and waits(action) and _asks(action, definition, proposal.requested):
                return each.operation
        return ""

    def _asked(self, action_id: str) -> dict[str, Json]:
        """Return the action's requested arguments as stored."""
        action = fold(self.session.store.events(action_id))
        kept = None if action is None else self.session.store.evidence(action.tenant, action_id, action.request_ref)
        asked = parse_json(kept.body) if kept is not None else None
        requested = asked.get("requested") if isinstance(asked, dict) else None
        return requested if isinstance(requested, dict) else {}

    def close(self) -> None:
        self.driver.close()
        self.session.close()


def _asks(action: Action, definition: Definition, requested: Mapping[str, Json]) -> bool:
    """Return whether the action requested exactly this. Compares hashes, since stored arguments may be redacted."""
    return action.request_hash == request_hash(definition.plan.contract.kind, action.target, requested)


@contextmanager
def opened(file: HookFile, run: str, where: Where = ANYWHERE) -> Iterator[HookSession]:
    """Open one hook's session. Raises HookFileError, ContractFileError, SettingsError, StoreError."""
    url = where.url or (f"sqlite:///{quote(file.ledger)}" if file.ledger else None)
    settings = bootstrap.settings(url=url, tenant=where.tenant, principal=where.principal, contracts=file.contracts)
    actions = _actions(file, dict(settings.contract_pins))
    session = Session.open(
        settings.url,
        tenant=settings.tenant,
        principal=settings.principal,
        run=run,
        plan="",
        task_state="",
        boundary="",
        trace=caller.traceparent if (caller := from_environment()) is not None else "",
        budget=None,
        break_glass="",
        actions=actions.values(),
        runtime=bootstrap.runtime(),
        store=None,
        recovery_table=settings.recovery_table or None,
        shadow=where.shadow,
    )
    desk = HookSession(session, actions)
    try:
        yield desk
    finally:
        desk.close()


def _actions(file: HookFile, pins: Mapping[str, str]) -> dict[str, FileAction]:
    """Return every contract known to the hooks. Raises HookFileError for an entry of `tools` without a contract."""
    actions = dict(contract_files(*file.contracts, OWN_CONTRACTS, pins=pins))
    for rule in file.rules:
        if rule.contract not in actions:
            raise HookFileError(f"An entry of `tools` for {rule.tool!r} names the unknown contract {rule.contract!r}.")
    return actions


def noted(call: ToolCall) -> dict[str, Json]:
    """Return the stored summary of an ungoverned call: one line about the call, and the hash of its input."""
    about = next((call.given[name] for name in _ABOUT if isinstance(call.given.get(name), str)), "")
    try:
        body = payload_bytes(dict(call.given))
    except ReadbackError:  # nested too deeply for a payload: hash the plain JSON text
        body = json_text(call.given, sort_keys=True).encode()
    return {"tool": call.tool, "about": one_line(str(about), ABOUT_MAX_CHARACTERS), "input_sha256": sha256_hex(body)}


def unapprovable(action: FileAction, call: ToolCall) -> list[str]:
    """Return the call's arguments outside the contract, if the contract needs approval.

    An approval binds the contract's arguments only. The agent could call the tool with any other values for the rest.
    """
    if action.contract.approval is None:
        return []
    return sorted(set(call.given) - set(action.arguments.names) - _WORDS.get(call.tool, frozenset()))


def arguments_of(action: FileAction, call: ToolCall) -> dict[str, Json]:
    """Return the tool's arguments named by the contract.

    A command's meaning depends on the agent's folder, so the folder becomes `cwd`. For a contract with commit
    arguments, the command text of `git commit` is parsed.
    """
    names = action.arguments.names
    placed: dict[str, Json] = {"cwd": os.path.abspath(call.folder)} if call.tool in _PLACED and call.folder else {}
    command = call.given.get("command")
    if call.tool in _PLACED and not COMMIT_FIELDS.isdisjoint(names) and isinstance(command, str):
        placed |= commit_of(command)
    return {name: value for name, value in {**call.given, **placed}.items() if name in names}
