"""Tools of servers as handlers of a contract: the acting one, and the readers.

Called by `build`. A tool's answer is evidence, converted to a reading here. A failure never counts as absence: only the
answers named in the contract, word for word, mean absence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from readback.canon import CanonError, Json, json_value, parse_json, why_not_json
from readback.canon.frozen import dataclass
from readback.contracts.files.contract import GATEWAY, values_of
from readback.contracts.files.system_options import Spec
from readback.contracts.files.templates.template import Values
from readback.contracts.files.tools.not_found_rules import Absence
from readback.contracts.functions.calling import Look
from readback.domain.context import Context
from readback.domain.json_pointer import pointed
from readback.domain.paging import has_another_page
from readback.domain.verification.observation_signs import one_line
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import NotDispatchedError, ReaderFailedError, ReaderTypeError, TemplateError
from readback.ports.handlers import Handler
from readback.ports.predicates import PredicateEngine
from readback.ports.system_factory import ToolAdapter

ANSWER_MAX_CHARS: Final = 8 * 1024 * 1024
SAID_MAX_CHARS: Final = 300
Asks: TypeAlias = Callable[[Context, Values], Awaitable[object]]


def tool_hand(
    name: str, spec: Spec, fitting: ToolAdapter | None, engine: PredicateEngine, unsent: frozenset[str] = frozenset()
) -> Handler:
    """Return a handler that calls the tool with the contract's rendered `arguments`, or else with the call's own
    arguments.

    `unsent`: arguments whose null only stands for a missing value.
    """

    async def call(ctx: Context, arguments: Mapping[str, object]) -> object:
        if fitting is None:
            raise NotDispatchedError(f"{name!r} was not called: {GATEWAY}.")
        try:
            given = sent(spec, values_of(engine, ctx, arguments))
        except TemplateError as error:
            raise NotDispatchedError(f"{name!r} was not called: {error.message}") from error
        if unsent:
            given = {key: each for key, each in given.items() if each is not None or key not in unsent}
        return await fitting.call(ctx, given)

    return Handler(name, call, is_async=True)


def sent(spec: Spec, values: Values) -> dict[str, Json]:
    """Return the tool's input. Raises TemplateError."""
    if "arguments" not in spec.asked:
        requested = values.roots["requested"]
        return dict(requested) if isinstance(requested, dict) else {}
    made = json_value(spec.asked["arguments"](values))
    assert isinstance(made, dict)
    return made


@dataclass(frozen=True, slots=True)
class ToolSource:
    """A tool as a source of readings."""

    system: str
    spec: Spec
    fitting: ToolAdapter | None
    fixed: Mapping[str, object] = field(default_factory=dict)

    async def read(self, ctx: Context, values: Values) -> Reading:
        """Raises ReaderFailedError, ReaderTypeError, TemplateError, and the connection's own errors."""
        document = await self._asked(ctx, values)
        return Reading.absent() if isinstance(document, Absence) else self._reading(document)

    async def find(self, ctx: Context, values: Values) -> list[Reading]:
        """Return every object of the shown list. Raises as `read` does, and for an incomplete list."""
        document = await self._asked(ctx, values)
        if isinstance(document, Absence):
            return []
        whole = "complete" not in self.fixed or self._at(document, "complete") is True
        if not whole or has_another_page(document):
            raise ReaderFailedError(f"{self.system} returned only a part of the list.")
        listed = self._at(document, "items") if "items" in self.fixed else document
        if not isinstance(listed, list):
            raise ReaderTypeError(f"{self.system} has no list at the contract's place.")
        return [self._reading(each) for each in listed]

    async def lookup(self, ctx: Context, values: Values) -> Lookup:
        """Return the attempt's fate, by the word at `status`; an unknown word means pending. Raises as `read` does."""
        document = await self._asked(ctx, values)
        if isinstance(document, Absence):
            return Lookup.unknown_key()
        word = self._at(document, "status")
        landed, failed = (self.fixed.get(name, []) for name in ("landed", "failed"))
        assert isinstance(landed, list)
        assert isinstance(failed, list)
        return Lookup.by_word(word, landed, failed, word)

    async def _asked(self, ctx: Context, values: Values) -> Json | Absence:
        """Return the tool's content; the contract's own Absence for an answer of absence."""
        if self.fitting is None:
            raise ReaderFailedError(f"{self.system} was not asked: {GATEWAY}.")
        result = await self.fitting.call(ctx, sent(self.spec, values))
        return self._shown(result, self._absence(values))

    def _absence(self, values: Values) -> Absence:
        rendered = self.spec.asked["absent"](values) if "absent" in self.spec.asked else Absence()
        assert isinstance(rendered, Absence)
        return rendered

    def _shown(self, result: Mapping[str, Json], absence: Absence) -> Json | Absence:
        text = _text(result)
        if result.get("isError") is not False and "isError" in result:
            if result["isError"] is True and absence.told(text):
                return absence
            raise ReaderFailedError(f"{self.system} answered with an error: {one_line(text, SAID_MAX_CHARS)}")
        document = self._document(result, text)
        return absence if absence.shown(document) else document

    def _reading(self, document: Json) -> Reading:
        value = self._at(document, "value") if "value" in self.fixed else document
        if value is None:
            raise ReaderFailedError(
                f"{self.system} returned nothing, and the contract does not declare that as absence."
            )
        version = self._at(document, "version")
        if version is not None and (isinstance(version, bool) or not isinstance(version, int | str)):
            raise ReaderTypeError(f"{self.system} has a version that is neither a number nor text.")
        marks = {name: self._at(document, name) for name in ("stamp", "author")}
        said = {name: None if mark is None else str(mark) for name, mark in marks.items()}
        return Reading.of(value, version=version, stamp=said["stamp"], author=said["author"])

    def _document(self, result: Mapping[str, Json], text: str) -> Json:
        shows = self.fixed.get("shows")
        if shows == "text":
            if not _texts(result):
                raise ReaderFailedError(f"{self.system} answered without text.")
            return {"text": text}
        structured = result.get("structuredContent")
        if isinstance(structured, dict):
            return structured
        if not _texts(result):
            raise ReaderFailedError(f"{self.system} answered with neither text nor structured content.")
        try:
            found = parse_json(text)
        except CanonError as error:
            if shows == "json":
                raise ReaderTypeError(f"{self.system} did not send JSON: {why_not_json(error)}") from error
            return {"text": text}
        return found if shows == "json" or isinstance(found, dict | list) else {"text": text}

    def _at(self, document: Json, name: str) -> Json:
        where = self.fixed.get(name)
        if where is None:
            return None
        return pointed(document, str(where), f"{self.system} sent nothing at {str(where)!r}.")


def tool_look(source: ToolSource, engine: PredicateEngine, use: str = "read") -> Look:
    """Return an async look, as for a built-in source. `use`: read, find or lookup."""
    ask: Mapping[str, Asks] = {"read": source.read, "find": source.find, "lookup": source.lookup}

    async def look(ctx: Context, arguments: Mapping[str, object]) -> object:
        return await ask[use](ctx, values_of(engine, ctx, arguments))

    return look


def _texts(result: Mapping[str, Json]) -> list[str]:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return [each for each in texts if isinstance(each, str)]


def _text(result: Mapping[str, Json]) -> str:
    text = "\n".join(_texts(result))
    if len(text) > ANSWER_MAX_CHARS:
        raise ReaderFailedError(f"The answer exceeds {ANSWER_MAX_CHARS} characters.")
    return text
