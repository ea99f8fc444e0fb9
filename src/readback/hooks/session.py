"""One hook's place at the ledger: opened for one session of the agent, with the contracts of the hook file.

A hook is a process of its own, so that everything is opened, used once and closed. What is on record is found again by
the session and the call's own id, whatever became of the process before.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator, Iterator, Mapping, Set
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
from readback.engine.effects import Effect, EffectResult
from readback.engine.resume import fold
from readback.engine.stages.approve import waits
from readback.errors import InputError
from readback.hooks.hook_file import HookFile
from readback.hooks.protocol import ToolCall
from readback.ports.storage.store import ActionFilter, Projection

# What a `git commit` command asks for, taken apart: its message, and what the commit is made of.

PATTERN_MAX_CHARACTERS: Final = 900
_COMMAND: Final = re.compile(r"\s*git\s+commit(?=\s|$)")
_HEREDOC: Final = re.compile(r"\$\(cat <<'(\w+)'\n(?:(.*?)\n)??\1\n\s*\)", re.DOTALL)
_PLACE: Final = "\ue000"
"""Stands for the text of a here-document while the rest is taken apart."""
_PUT_AWAY: Final = re.compile(rf"{_PLACE}(\d+){_PLACE}")
_QUOTED: Final = re.compile(r"\\.|'[^']*'", re.DOTALL)
"""What a shell takes as it is, and puts nothing in place of."""
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
"""Short options whose value, if any, is the rest of the word."""
_SHORT: Final = {"a": "--all", "i": "--include", "o": "--only", "p": "--patch"}
_OLD_TIME: Final = frozenset({"--amend", "--date", "--reuse-message", "--reedit-message"})
_OTHER_TEXT: Final = frozenset({"--file", "--reuse-message", "--reedit-message", "--template", "--fixup", "--squash"})
_SOME_PATHS: Final = frozenset({"--include", "--only", "--patch", "--interactive", "--pathspec-from-file"})


_UNKNOWN: Final[dict[str, Json]] = {
    "message": "", "pattern": "", "amend": False, "fresh": False, "takes": "paths",
}  # fmt: skip
"""Of a command that cannot be taken apart: any message, and of all that was changed."""
COMMIT_FIELDS: Final = frozenset(_UNKNOWN)


def commit_of(command: str) -> dict[str, Json]:
    """What the command says of the commit.

    `message` ("" where it is not said, or not known), `pattern` (of RE2: the words of its first line, in any case and
    with any white space between them), `amend`, `fresh` (its author time is that of the commit), and `takes`: "index",
    "tracked" (all that git knows) or "paths".
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
    """The options by their long names, the messages in their order, and whether paths are named."""
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
    """`-am text`: each letter is an option, and the first that takes a value takes the rest of the word."""
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
    """As git cleans a message: without white space at the ends of lines, and one empty line in place of several."""
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
"""Actions of a session among which a call is looked for, the newest first."""
ABOUT_MAX_CHARACTERS: Final = 200
_WORDS: Final = {"Bash": frozenset({"description"})}
"""What a tool is given for people to read, and does nothing with."""
_PLACED: Final = frozenset({"Bash"})
"""Tools that act where the agent is, and have no argument for it."""
_ABOUT: Final = ("command", "file_path", "notebook_path", "path", "url")


@dataclass(frozen=True, slots=True)
class Where:
    """Which ledger, and in whose name; "" or None where the hook file or the settings say."""

    url: str | None = None
    tenant: str | None = None
    principal: str | None = None


ANYWHERE: Final = Where()


class HookSession:
    """The ledger and the contracts, for one hook."""

    def __init__(self, session: Session, actions: Mapping[str, FileAction]) -> None:
        self.session = session
        self.actions = actions
        self.driver = SyncDriver(session.store, session.runtime, session.courier)

    # --- acting ------------------------------------------------------------------------------------------------

    def hand_out(
        self, action: FileAction, call: ToolCall, given: Mapping[str, Json]
    ) -> external_attempts.ExternalAttempt:
        """Makes the attempt durable. Raises what `Readback.run` raises, for what cannot be proposed."""
        proposal = action(**given)
        waiting = self._waiting(proposal)
        request = self.session.request(proposal, waiting or call.operation, None, call.agent)
        handed = self.driver.drive(self._handing(replace(request, outside=True)))
        assert not isinstance(handed, Parked)
        return handed

    def _handing(self, request: Request) -> Generator[Effect, EffectResult, external_attempts.ExternalAttempt]:
        s = self.session
        return external_attempts.start_external(s.engine, request, s.scope, s.plan_of, ActionHandle())

    def report(self, action_id: str, said: external_attempts.Report, wait_us: int) -> Outcome:
        """How the attempt ended, and what is read back; pending where that takes longer than one may wait."""
        s = self.session
        work = external_attempts.complete_external(s.engine, action_id, s.scope.tenant, s.plan_of, said)
        told = self.driver.drive(work, s.runtime.now_us() + wait_us)
        return self.outcome(action_id) if isinstance(told, Parked) else told

    def outcome(self, action_id: str) -> Outcome:
        """As the ledger tells it now."""
        told = self.driver.drive(self.session.look(action_id))
        assert not isinstance(told, Parked)
        return told

    def go_on(self, action_id: str) -> None:
        """Looks now, as far as it goes without waiting."""
        self.session.store.wake(action_id, self.session.runtime.now_us())
        self.driver.drive(self.session.advance(action_id, self.session.scope.tenant))

    # --- finding -----------------------------------------------------------------------------------------------

    def run(self, most: int = LOOKED_BACK_MAX) -> Iterator[Projection]:
        """The actions of the agent's session, the newest first."""
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
        """The action of this call; "" where none is on record. `contracts`: those that can govern such a tool.

        One that had to be approved was handed out to a later call of the same kind: it is the only one that is open.
        """
        open_: list[str] = []
        others = False
        for each in self.run():
            if each.operation == call.operation:
                if self._is_of(each, call, contracts):
                    return each.action_id
                others = True  # of another tool, with the same id
            elif each.state == State.EXECUTING and each.contract in contracts and self._fits(each.action_id, call):
                open_.append(each.action_id)
        return open_[0] if len(open_) == 1 and not others else ""

    def handed_out(self, action_id: str) -> bool:
        """Whether an attempt of it may have been made: one that was denied has none."""
        action = fold(self.session.store.events(action_id))
        return action is not None and bool(action.attempts)

    def agent_of(self, action_id: str) -> str:
        """The agent within that made the call; "" for the outer one."""
        action = fold(self.session.store.events(action_id))
        return "" if action is None else str(action.context.get("step", ""))

    def _is_of(self, each: Projection, call: ToolCall, contracts: Set[str]) -> bool:
        """Whether the action is one of this tool's: the answer of another tool says nothing about it."""
        if each.contract == UNGOVERNED:
            return self._asked(each.action_id).get("tool") == call.tool
        return each.contract in contracts

    def _fits(self, action_id: str, call: ToolCall) -> bool:
        action = fold(self.session.store.events(action_id))
        if action is None or action.approval is None or action.contract not in self.actions:
            return False  # its own call reports it
        governing = self.actions[action.contract]
        try:
            _, requested = governing.arguments.bind((), arguments_of(governing, call))
        except InputError:
            return False
        return _asks(action, governing, requested)

    def _waiting(self, proposal: Proposal) -> str:
        """The operation of an action of the session that waits for an approval of the very same request."""
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
        """What an action was asked for, as it is kept."""
        action = fold(self.session.store.events(action_id))
        kept = None if action is None else self.session.store.evidence(action.tenant, action_id, action.request_ref)
        asked = parse_json(kept.body) if kept is not None else None
        requested = asked.get("requested") if isinstance(asked, dict) else None
        return requested if isinstance(requested, dict) else {}

    def close(self) -> None:
        self.driver.close()
        self.session.close()


def _asks(action: Action, definition: Definition, requested: Mapping[str, Json]) -> bool:
    """Whether this is what the action was asked for, with the arguments as they are: what is kept may be redacted."""
    return action.request_hash == request_hash(definition.plan.contract.kind, action.target, requested)


@contextmanager
def opened(file: HookFile, run: str, where: Where = ANYWHERE) -> Iterator[HookSession]:
    """The desk of one hook. Raises HookFileError, ContractFileError, SettingsError, StoreError."""
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
        trace="",
        budget=None,
        break_glass="",
        actions=actions.values(),
        runtime=bootstrap.runtime(),
        store=None,
        recovery_table=settings.recovery_table or None,
    )
    desk = HookSession(session, actions)
    try:
        yield desk
    finally:
        desk.close()


def _actions(file: HookFile, pins: Mapping[str, str]) -> dict[str, FileAction]:
    """Every contract that the hooks know. Raises HookFileError for an entry of `tools` that names none."""
    actions = dict(contract_files(*file.contracts, OWN_CONTRACTS, pins=pins))
    for rule in file.rules:
        if rule.contract not in actions:
            raise HookFileError(f"An entry of `tools` for {rule.tool!r} names {rule.contract!r}, which is no contract.")
    return actions


def noted(call: ToolCall) -> dict[str, Json]:
    """What is kept of an ungoverned call: a line of what it is about, and the hash of the whole."""
    about = next((call.given[name] for name in _ABOUT if isinstance(call.given.get(name), str)), "")
    try:
        body = payload_bytes(dict(call.given))
    except ReadbackError:  # deeper than what is kept, and only its hash is
        body = json_text(call.given, sort_keys=True).encode()
    return {"tool": call.tool, "about": one_line(str(about), ABOUT_MAX_CHARACTERS), "input_sha256": sha256_hex(body)}


def unapprovable(action: FileAction, call: ToolCall) -> list[str]:
    """What a call has that an approval would not be bound to: an argument that the contract does not name.

    An approver would sign for a part, and the agent could call the tool with any rest.
    """
    if action.contract.approval is None:
        return []
    return sorted(set(call.given) - set(action.arguments.names) - _WORDS.get(call.tool, frozenset()))


def arguments_of(action: FileAction, call: ToolCall) -> dict[str, Json]:
    """The tool's arguments that the contract takes: what it does not name is not what it is about.

    A command means what it means in the folder that the agent is in, which no argument says: that is its `cwd`. What a
    `git commit` asks for stands in its text, and is taken out of it for a contract that has arguments for that.
    """
    names = action.arguments.names
    placed: dict[str, Json] = {"cwd": os.path.abspath(call.folder)} if call.tool in _PLACED and call.folder else {}
    command = call.given.get("command")
    if call.tool in _PLACED and not COMMIT_FIELDS.isdisjoint(names) and isinstance(command, str):
        placed |= commit_of(command)
    return {name: value for name, value in {**call.given, **placed}.items() if name in names}
