"""One source or executor of a contract file, checked key by key against its table, with compiled templates.

Called by `contract`. Faults are reported with their places. Sound keys are split: `fixed` for constants, `asked` for
values rendered on each call. No system is reached, and no reference resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Final, TypeAlias, assert_never

from readback.canon import Json
from readback.canon.frozen import dataclass
from readback.contracts.conditions_compiler import fields_of
from readback.contracts.files.document import Fault, Place, Written
from readback.contracts.files.templates import command_arguments, injection_checks
from readback.contracts.files.templates.template import ROOTS, CompiledTemplate, Values, compile_fill
from readback.contracts.files.tools.not_found_rules import Absence, error_text, sound_error
from readback.contracts.files.vocabulary import (
    ABSENCE_KEYS,
    EXECUTOR,
    NEEDS,
    POINTED,
    POINTERS,
    SENDS_KEY,
    SOURCE,
    USUAL,
    ExecutorKind,
    Key,
    Shape,
    SourceKind,
)
from readback.contracts.problems import did_you_mean
from readback.errors import ContractError, ContractFieldError, ExpressionError
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import TAKES_VALUES, Reference

ENTRIES_MAX: Final = 100
TEXT_MAX_CHARS: Final = 4_096
REFERENCE_KINDS: Final = ("env", "file")
Render: TypeAlias = Callable[[Values], object]


@dataclass(slots=True)
class Diagnostics:
    """The faults of one file, in the order of discovery."""

    faults: list[Fault] = field(default_factory=list)

    def add(self, at: Written | Place, path: str, error: ContractError | str) -> None:
        """Add a fault at a value's place; an expression's own column counts from there."""
        place = at.place if isinstance(at, Written) else at
        if isinstance(error, str):
            self.faults.append(Fault(place, path, error))
            return
        if isinstance(error, ExpressionError) and error.column and isinstance(at, Written) and at.begins:
            place = Place(place.line, at.begins + error.column - 1)
        remedy = "" if error.remedy == error.remedy_default else error.remedy  # the general one is told at the end
        self.faults.append(Fault(place, path, error.message, remedy, error.code))

    def keys(self, node: Written, path: str, what: str, known: Collection[str]) -> dict[str, Written]:
        """Return the values of known keys."""
        found = node.mapping
        if found is None:
            self.add(node, path, f"{what} must be a mapping of {', '.join(known)}.")
            return {}
        for name in found:
            if name not in known:
                self.add(node.keys[name], joined(path, name), f"{what} has no such key.{did_you_mean(name, known)}")
        return {name: value for name, value in found.items() if name in known}


@dataclass(frozen=True, slots=True)
class Spec:
    """A source or an executor, ready for a fitting. `names`: the arguments in the templates."""

    kind: str
    fixed: Mapping[str, object] = field(default_factory=dict)
    asked: Mapping[str, Render] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    paths: tuple[tuple[frozenset[str], Render], ...] = ()
    """The templates of paths, each with the mentioned arguments."""
    bears_key: bool = False
    """The attempt's idempotency key is sent: by the executor itself, or through a template."""

    def given(self, values: Values) -> dict[str, object]:
        """Return the rendered templates. Raises TemplateError."""
        return {name: render(values) for name, render in self.asked.items()}


@dataclass(slots=True)
class SpecReader:
    """Reads specs of one contract. `arguments`: the names below `requested`; None if unknown."""

    engine: PredicateEngine
    arguments: Collection[str] | None
    findings: Diagnostics
    names: set[str] = field(default_factory=set)
    scope: set[str] = field(default_factory=set)
    roots: Collection[str] = ROOTS
    paths: list[tuple[frozenset[str], Render]] = field(default_factory=list)

    def values(self, node: Written, path: str) -> tuple[Render, Collection[str]]:
        """Return a mapping of names to templated values, and the names. Raises ContractError for another value."""
        return self._value(node, path), _named(node).keys()

    def source(self, kind: str, node: Written, path: str, use: str) -> Spec | None:
        """Read a source. `use`: read, find or lookup."""
        row = SOURCE[kind]
        if use not in row.uses:
            self.findings.add(node, path, f"A {kind} source cannot be used for {use}, only for {', '.join(row.uses)}.")
            return None
        return self._spec(row, node, path, use)

    def executor(self, kind: str, node: Written, path: str) -> Spec | None:
        return self._spec(EXECUTOR[kind], node, path, "execute")

    def one(
        self, node: Written, path: str, known: Mapping[str, object], beside: Collection[str]
    ) -> tuple[str, Written | None]:
        """Return the mapping's single word from a table, with the word's value."""
        what = "A source" if known is SOURCE else "An executor"
        found = self.findings.keys(node, path, what, [*known, *beside])
        named = [name for name in found if name in known]
        if len(named) != 1:
            if node.mapping is not None and len(named) + len(node.mapping) > 0 and not set(node.mapping) - set(found):
                said = f"Exactly one of {', '.join(known)} is allowed (got {len(named)})."
                self.findings.add(node, path, said)
            elif node.mapping == {}:
                self.findings.add(node, path, f"One of {', '.join(known)} is required.")
            return "", None
        return named[0], found[named[0]]

    def _spec(self, row: SourceKind | ExecutorKind, node: Written, path: str, use: str) -> Spec | None:
        before, self.names, self.scope, self.paths = len(self.findings.faults), set(), set(), []
        known = [key for key in row.keys if not key.uses or use in key.uses]
        found = self.findings.keys(node, path, f"`{row.name}`", [key.name for key in known])
        fixed: dict[str, object] = {}
        asked: dict[str, Render] = {}
        for key in known:
            if key.name not in found:
                if key.required and node.mapping is not None:
                    self.findings.add(node, path, f"`{row.name}` needs `{key.name}`: {key.said}")
                continue
            try:
                self._key(key, found[key.name], joined(path, key.name), row, fixed, asked)
            except ContractError as error:
                self.findings.add(found[key.name], joined(path, key.name), error)
        if row.either and node.mapping is not None and sum(name in found for name in row.either) != 1:
            self.findings.add(node, path, f"`{row.name}` takes one of {', '.join(row.either)}.")
        for said in _together(row, use, found):
            self.findings.add(node, path, said)
        if len(self.findings.faults) == before and {"argv", "stdin"} <= found.keys():
            try:
                stdin = self._argument(found["stdin"])
                command_arguments.sound_input(self._arguments(found["argv"], path), stdin)
                fixed[TAKES_VALUES] = bool(fixed[TAKES_VALUES]) or stdin.data
            except ContractError as error:
                self.findings.add(found["stdin"], joined(path, "stdin"), error)
        if len(self.findings.faults) > before:
            return None
        bears_key = row.name in SENDS_KEY or "idempotency_key" in self.scope
        return Spec(row.name, fixed, asked, frozenset(self.names), tuple(self.paths), bears_key)

    # --- one key ---------------------------------------------------------------------------------------------------

    def _key(
        self,
        key: Key,
        node: Written,
        path: str,
        row: SourceKind | ExecutorKind,
        fixed: dict[str, object],
        asked: dict[str, Render],
    ) -> None:
        """Raises ContractError for a fault of the whole value; faults of parts have their own places."""
        match key.shape:
            case Shape.FIXED | Shape.WRITTEN | Shape.NUMBER | Shape.SECRET:
                fixed[key.name] = _setting(key, node)
            case Shape.FLAG:
                if not isinstance(node.value, bool):
                    raise ContractFieldError("Must be true or false.")
                fixed[key.name] = node.value
            case Shape.CHOICE:
                if node.value not in key.choices:
                    raise ContractFieldError(f"Must be one of {', '.join(key.choices)}.{_near(node, key.choices)}")
                fixed[key.name] = node.value
            case Shape.WORDS:
                fixed[key.name] = [_plain_text(each) for each in _entries(node)]
            case Shape.CODES:
                fixed[key.name] = [_code(each) for each in _entries(node)]
            case Shape.ENVIRONMENT:
                fixed[key.name] = self._environment(node, path)
            case Shape.HEADERS:
                fixed[key.name], asked[key.name] = self._headers(node, path, mail=row.name == "smtp")
            case Shape.TEXT:
                fill = self._fill(node)
                safe = injection_checks.safe_path if key.name in ("path", "to") else CompiledTemplate.text
                asked[key.name] = lambda values: safe(fill, values)
                if key.name in ("path", "to"):
                    named_by = [fields_of(hole.predicate, "requested") for hole in fill.holes]
                    self.paths.append((frozenset().union(*named_by), asked[key.name]))
            case Shape.TEXTS:
                fills = self._fills(node, path)
                asked[key.name] = lambda values: [each.text(values) for each in fills]
            case Shape.NAMED:
                named = {name: self._fill_at(each, joined(path, name)) for name, each in _named(node).items()}
                asked[key.name] = lambda values: {name: each.text(values) for name, each in named.items()}
            case Shape.VALUE:
                render = self._value(node, path)
                asked[key.name] = render
            case Shape.ARGUMENTS:
                _named(node)
                asked[key.name] = self._value(node, path)
            case Shape.ABSENCE:
                asked[key.name] = self._absence(node, path)
            case Shape.STATEMENT:
                statement = self._fill(node)
                injection_checks.sound_statement(statement, reads=isinstance(row, SourceKind) or key.name == "look")
                asked[key.name] = statement.pieces
            case Shape.ADDRESS:
                address = self._fill(node)
                injection_checks.sound_address(address)
                asked[key.name] = lambda values: injection_checks.safe_address(address, values)
            case Shape.ARGV:
                elements = self._arguments(node, path)
                command_arguments.sound_arguments(elements)
                for each in elements:
                    injection_checks.sound_text(each.fill.fixed or "")
                fixed[key.name] = [elements[0].fill.fixed]
                fixed[TAKES_VALUES] = any(each.data for each in elements)
                asked[key.name] = lambda values: command_arguments.safe_arguments(elements, values)
            case Shape.INPUT:
                given = self._argument(node)
                asked[key.name] = lambda values: given.fill.text(values)
            case _:
                assert_never(key.shape)

    def _fill(self, node: Written) -> CompiledTemplate:
        """Raises ContractError."""
        source = node.value
        if isinstance(source, bool | dict | list) or source is None:
            raise ContractFieldError("Must be text.")
        written = node.text if isinstance(source, int | float) else source
        fill = compile_fill(written, self.engine, self.arguments, self.roots)
        for hole in fill.holes:
            self.names |= fields_of(hole.predicate, "requested")
            self.scope |= fields_of(hole.predicate, "scope")
        return fill

    def _fill_at(self, node: Written, path: str) -> CompiledTemplate:
        """Compile a template; a fault is reported at its place, and an empty template stands in."""
        try:
            return self._fill(node)
        except ContractError as error:
            self.findings.add(node, path, error)
            return CompiledTemplate("", ())

    def _fills(self, node: Written, path: str) -> list[CompiledTemplate]:
        return [self._fill_at(each, f"{path}[{number}]") for number, each in enumerate(_entries(node))]

    def _argument(self, node: Written) -> command_arguments.Argument:
        """Raises ContractError."""
        written, data = command_arguments.written_value(node)
        return command_arguments.Argument(self._fill(written), data)

    def _arguments(self, node: Written, path: str) -> list[command_arguments.Argument]:
        """Compile arguments; each fault is reported at its place, and an empty template stands in."""
        found = []
        for number, each in enumerate(_entries(node)):
            try:
                found.append(self._argument(each))
            except ContractError as error:
                self.findings.add(each, f"{path}[{number}]", error)
                found.append(command_arguments.Argument(CompiledTemplate("", ())))
        return found

    def _value(self, node: Written, path: str) -> Render:
        """Compile a value of any form, with templates in its texts."""
        match node.value:
            case dict() as mapping:
                inner = {name: self._value(each, joined(path, name)) for name, each in mapping.items()}
                return lambda values: {name: render(values) for name, render in inner.items()}
            case list() as listed:
                each_of = [self._value(each, f"{path}[{number}]") for number, each in enumerate(listed)]
                return lambda values: [render(values) for render in each_of]
            case str():
                fill = self._fill_at(node, path)
                return fill.value
            case plain:
                return lambda values: plain

    def _absence(self, node: Written, path: str) -> Render:
        """Raises ContractError."""
        found = self.findings.keys(node, path, "`absent`", ABSENCE_KEYS)
        matches, pointer = found.get("error_matches"), found.get("at")
        fill = None if matches is None else self._fill(matches)
        at = pointer.value if pointer is not None and isinstance(pointer.value, str) else None
        if fill is not None:
            sound_error(fill)
        if ("at" in found) is not ("is" in found) or not found:
            raise ContractFieldError(
                "`absent` needs `error_matches`, or `at` (a JSON pointer) with `is` (the value there)."
            )
        if pointer is not None and not (at or "").startswith("/"):
            raise ContractFieldError("`at` must be a JSON pointer and begin with a slash.")
        equals = found["is"].plain() if "is" in found else None
        return lambda values: Absence(error_text(fill, values) if fill is not None else "", at, equals)

    def _headers(self, node: Written, path: str, *, mail: bool) -> tuple[dict[str, object], Render]:
        """Split headers: references are constants, templates are rendered on each call."""
        kept: dict[str, object] = {}
        fills: dict[str, CompiledTemplate] = {}
        for name, each in _named(node).items():
            at = joined(path, name)
            try:
                reference = reference_in(each)
                fill = None if reference is not None else self._fill(each)
                injection_checks.sound_header(name, fill)
            except ContractError as error:
                self.findings.add(each, at, error)
                continue
            if fill is None:
                kept[name] = reference
            else:
                fills[name] = fill
        safe = injection_checks.safe_line if mail else injection_checks.safe_ascii
        return kept, lambda values: {name: safe(fill, values) for name, fill in fills.items()}

    def _environment(self, node: Written, path: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, each in _named(node).items():
            try:
                reference = reference_in(each)
                injection_checks.sound_variable(name, reference is None)
                found[name] = _plain_text(each) if reference is None else reference
                injection_checks.sound_text(str(each.value))
            except ContractError as error:
                self.findings.add(each, joined(path, name), error)
        return found


def reference_in(node: Written) -> Reference | None:
    """Return `{env: NAME}` or `{file: PATH}`; None for anything but a mapping. Raises ContractFieldError for another
    mapping.
    """
    found = node.mapping
    if found is None:
        return None
    kinds = [kind for kind in REFERENCE_KINDS if kind in found]
    name = found[kinds[0]].value if len(found) == 1 and kinds else None
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ContractFieldError("A reference must be {env: NAME} or {file: PATH}.")
    if kinds[0] == "env" and injection_checks.VARIABLE.fullmatch(name) is None:
        raise ContractFieldError(f"{name!r:.60} is not a valid variable name.")
    return Reference(kinds[0], name)


def joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _setting(key: Key, node: Written) -> object:
    reference = reference_in(node)
    if reference is not None and key.shape is Shape.WRITTEN:
        raise ContractFieldError("The value must stand in the file itself. References are not allowed here.")
    if reference is not None:
        return reference
    if key.shape is Shape.SECRET:
        raise ContractFieldError("A credential must not stand in the file. Use {env: NAME} or {file: PATH}.")
    if key.shape is Shape.NUMBER:
        if not isinstance(node.value, int) or isinstance(node.value, bool) or not 0 < node.value <= 65_535:
            raise ContractFieldError("Must be a whole number from 1 to 65535.")
        return node.value
    if key.name == "items" and node.value == "":
        return ""  # the whole answer is the list
    text = _plain_text(node)
    if key.name == "url":
        injection_checks.sound_url(text)
    else:
        injection_checks.sound_text(text)
    return text


def _plain_text(node: Written) -> str:
    text = node.value
    if isinstance(text, int) and not isinstance(text, bool):
        return str(text)
    if not isinstance(text, str) or not text.strip():
        raise ContractFieldError("Must be text.")
    if len(text) > TEXT_MAX_CHARS or not text.isprintable():
        raise ContractFieldError(f"Must be one line of at most {TEXT_MAX_CHARS} characters.")
    return text


def _code(node: Written) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool) or not 0 <= node.value <= 255:
        raise ContractFieldError("An exit code must be a whole number from 0 to 255.")
    return node.value


def _entries(node: Written) -> list[Written]:
    found = node.listed
    if found is None or len(found) > ENTRIES_MAX:
        raise ContractFieldError(f"Must be a list of at most {ENTRIES_MAX} entries.")
    return found


def _named(node: Written) -> dict[str, Written]:
    found = node.mapping
    if found is None or len(found) > ENTRIES_MAX:
        raise ContractFieldError(f"Must be a mapping of at most {ENTRIES_MAX} names.")
    return found


def _near(node: Written, known: Collection[str]) -> str:
    return did_you_mean(str(node.value), known) if isinstance(node.value, str) else ""


def _together(row: SourceKind | ExecutorKind, use: str, found: Mapping[str, Written]) -> list[str]:
    """Report conflicts between keys."""
    chosen = found.get("do") or found.get("show")
    word = chosen.value if chosen is not None else USUAL.get(row.name, "")
    needed = NEEDS.get((row.name, str(word)), ())
    said = [f"`{word}` needs `{name}`." for name in needed if name not in found]
    if use == "lookup" and not ("landed" in found or "failed" in found):
        said.append("A lookup needs the final words: `landed`, `failed`, or both.")
    if use == "lookup" and row.name != "http" and "status" not in found:
        said.append("A lookup needs `status`, the place of the word.")
    if isinstance(row, ExecutorKind) and row.name == "sql" and _is_true(found.get("stage")) and "look" not in found:
        said.append("A staged statement needs `look`, a select of the resulting row.")
    if _is_true(found.get("stage")) and row.name == "file" and word != "write":
        said.append("Only a write can be staged.")
    if row.name in POINTED:
        said += [
            f"`{name}` must be a JSON pointer and begin with a slash." for name in POINTERS if _is_bare(found, name)
        ]
    if row.name in ("smtp", "imap") and ("user" in found) is not ("password" in found):
        said.append("`user` and `password` belong together.")
    if row.name == "imap" and "user" not in found:
        said.append("A mailbox needs `user` and `password`.")
    return said


def _is_bare(found: Mapping[str, Written], name: str) -> bool:
    said = found[name].value if name in found else None
    return isinstance(said, str | int) and said != "" and not str(said).startswith("/")


def _is_true(node: Written | None) -> bool:
    return node is not None and node.value is True


def json_of(spec: Spec | None) -> Json:
    """Return the settings for display, with references as references."""
    if spec is None:
        return None
    shown: dict[str, Json] = {name: _shown(value) for name, value in spec.fixed.items()}
    asks: list[Json] = [*sorted(spec.asked)]
    return {spec.kind: shown, "asks": asks}


def _shown(value: object) -> Json:
    if isinstance(value, Reference):
        return {value.kind: value.name}
    if isinstance(value, dict):
        return {str(name): _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value if isinstance(value, str | int | bool) else str(value)
