"""The servers named in a contract file: the server of the file's tools, and others for readers.

Called by `assembly`. No server is started, and no reference is resolved; the caller of tools does both.
"""

from __future__ import annotations

from typing import Final

from readback.canon.frozen import dataclass
from readback.contracts.files.document import Written
from readback.contracts.files.system_options import Diagnostics, joined, reference_in
from readback.contracts.files.templates import injection_checks
from readback.contracts.files.undecided import tell_undecided
from readback.contracts.files.vocabulary import SERVER_KEYS
from readback.errors import ContractError, ContractFieldError
from readback.ports.system_factory import Reference, ServerTerms

SERVERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ServerReader:
    """Reads servers of one file. `folder`: the file's."""

    folder: str
    findings: Diagnostics

    def named(self, node: Written) -> dict[str, ServerTerms]:
        """Return the servers of `servers`, by name."""
        if node.mapping is None or len(node.mapping) > SERVERS_MAX:
            self.findings.add(node, "servers", f"Must be a mapping of at most {SERVERS_MAX} servers by name.")
            return {}
        found: dict[str, ServerTerms] = {}
        for name, each in node.mapping.items():
            if injection_checks.SERVER_NAME.fullmatch(name) is None:
                said = f"{name!r:.60} is not a valid server name. Use letters, digits, '-' and '_', and no digit first."
                self.findings.add(node.keys[name], "servers", said)
                continue
            found[name] = self.server(each, f"servers.{name}", name)
        return found

    def server(self, node: Written, path: str, key: str) -> ServerTerms:
        """Read one server: a command, or an address."""
        keys = self.findings.keys(node, path, f"`{path}`", SERVER_KEYS)
        tell_undecided(node, path, self.findings)
        if node.mapping is not None and ("command" in keys) is ("url" in keys):
            self.findings.add(node, path, "A server needs `command` (a list of a program and its arguments) or `url`.")
        command = self._command(keys["command"], joined(path, "command")) if "command" in keys else ()
        named = {kind: self._named(kind, keys[kind], joined(path, kind)) for kind in ("env", "headers") if kind in keys}
        located = {name: self._located(name, keys[name], joined(path, name)) for name in ("url", "cwd") if name in keys}
        return ServerTerms(
            key,
            self.folder,
            command,
            located.get("url", ""),
            named.get("env", {}),
            named.get("headers", {}),
            located.get("cwd", ""),
        )

    def _command(self, node: Written, path: str) -> tuple[str, ...]:
        if node.listed is None:
            self.findings.add(node, path, "Must be a list of texts.")
            return ()
        texts = [each.value for each in node.listed if isinstance(each.value, str) and each.value]
        for each in node.listed:
            if not isinstance(each.value, str) or not each.value or "\0" in each.value:
                self.findings.add(each, path, "Must be text.")
                continue
            try:
                injection_checks.sound_text(each.value)
            except ContractError as error:
                self.findings.add(each, path, error)
        if not node.listed:
            self.findings.add(node, path, "The list must begin with the name of a program.")
        return tuple(texts)

    def _named(self, kind: str, node: Written, path: str) -> dict[str, str | Reference]:
        if node.mapping is None:
            self.findings.add(node, path, "Must be a mapping of names to texts or references.")
            return {}
        found: dict[str, str | Reference] = {}
        for name, each in node.mapping.items():
            try:
                found[name] = self._value(kind, name, each)
            except ContractError as error:
                self.findings.add(each, joined(path, name), error)
        return found

    def _value(self, kind: str, name: str, node: Written) -> str | Reference:
        reference = reference_in(node)
        if kind == "env":
            injection_checks.sound_variable(name, reference is None)
        else:
            injection_checks.sound_header(name, None)
            if reference is None and injection_checks.is_secret_header(name):
                raise ContractFieldError("The value is a credential. Use a reference: {env: NAME} or {file: PATH}.")
        if reference is not None:
            return reference
        if not isinstance(node.value, str) or not injection_checks.is_line(node.value):
            raise ContractFieldError("Must be text on one line, or a reference.")
        injection_checks.sound_text(node.value)
        return node.value

    def _located(self, name: str, node: Written, path: str) -> str | Reference:
        try:
            reference = reference_in(node)
            if reference is not None:
                return reference
            if not isinstance(node.value, str) or not node.value.strip() or not injection_checks.is_line(node.value):
                raise ContractFieldError("Must be text on one line.")
            if name == "url":
                injection_checks.sound_url(node.value)
        except ContractError as error:
            self.findings.add(node, path, error)
            return ""
        return node.value
