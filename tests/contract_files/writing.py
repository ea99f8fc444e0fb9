"""Contract files for tests: written, loaded with given fittings, and their faults as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent, indent

from readback import bootstrap
from readback.canon import Json
from readback.contracts.files.assembly import Loaded, assembled, drafted
from readback.contracts.files.tools.listing import Toolbox
from readback.domain.context import Context
from readback.domain.verification.reading import Lookup, Reading
from readback.errors import FittingError
from readback.ports.system_factory import Fixed, Given

HEAD = "apiVersion: readback/v1\nkind: Contracts\n"


@dataclass(slots=True)
class Fake:
    """One fitting that answers as it is told, and remembers what it was given."""

    kind: str
    fixed: Fixed
    seen: list[Mapping[str, object]] = field(default_factory=list)
    reading: Callable[[], Reading] = Reading.absent

    place: Callable[[], str] | None = None
    located: Callable[[str], str] | None = None

    def read(self, ctx: Context, given: Given) -> Reading:
        self.seen.append(dict(given))
        return self.reading()

    def glance(self, ctx: Context, given: Callable[[], Given]) -> Reading | None:
        return None

    def find(self, ctx: Context, given: Given) -> list[Reading]:
        self.seen.append(dict(given))
        return []

    def lookup(self, ctx: Context, given: Given) -> Lookup:
        self.seen.append(dict(given))
        return Lookup.pending()

    def ping(self) -> None:
        return None

    def execute(self, ctx: Context, given: Given) -> object:
        self.seen.append(dict(given))
        return {"ok": True}


@dataclass(slots=True)
class FakeTool:
    """One tool that answers as it is told, and remembers what it was given."""

    name: str
    seen: list[dict[str, Json]] = field(default_factory=list)
    answer: Callable[[], dict[str, Json]] = lambda: {"content": [{"type": "text", "text": "ok"}]}

    async def call(self, ctx: Context, arguments: Mapping[str, Json]) -> dict[str, Json]:
        self.seen.append(dict(arguments))
        return self.answer()


@dataclass(slots=True)
class Fakes:
    """Fittings that reach nothing. `serves`: there are servers, whose tools answer as they are told."""

    made: list[Fake] = field(default_factory=list)
    serves: bool = False
    tools: dict[tuple[str, str], FakeTool] = field(default_factory=dict)

    def source(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> Fake:
        return self._made(kind, fixed)

    def executor(self, kind: str, name: str, fixed: Fixed, folder: str, timeout_us: int) -> Fake:
        return self._made(kind, fixed)

    def tool(self, server: str, name: str, timeout_us: int) -> FakeTool:
        if not self.serves:
            raise FittingError("It is called through a gateway.")
        return self.tools.setdefault((server, name), FakeTool(name))

    def _made(self, kind: str, fixed: Fixed) -> Fake:
        self.made.append(Fake(kind, fixed))
        return self.made[-1]


def context(**changes: object) -> Context:
    known: dict[str, object] = {
        "action_id": "a-1", "tenant": "acme", "principal": "agent:ops", "operation": "op", "target": "t",
        "idempotency_key": "key-1", "stamp": "stamp-1",
    }  # fmt: skip
    return Context(**{**known, **changes})  # type: ignore[arg-type]


def contract(body: str, name: str = "one") -> str:
    """A whole file with one contract of these keys."""
    return f"{HEAD}contracts:\n  {name}:\n" + indent(dedent(body).strip("\n"), "    ") + "\n"


def loaded(
    *texts: str | bytes,
    fakes: Fakes | None = None,
    tools: Mapping[str, object] | None = None,
    others: Mapping[str, Mapping[str, object]] | None = None,
) -> Loaded:
    """The files `0.yaml`, `1.yaml` and so on, compiled; with their faults."""
    drafts = [
        drafted(f"{number}.yaml", text.encode() if isinstance(text, str) else text) for number, text in enumerate(texts)
    ]
    return assembled(drafts, bootstrap.predicate_engine(), fakes or Fakes(), Toolbox(tools, others or {}))


def faults(*texts: str | bytes) -> list[str]:
    """Each as `line:column path: reason`."""
    return [f"{f.place.line}:{f.place.column} {f.path}: {f.said}" for _, f in loaded(*texts).faults]


def written(path: Path, text: str) -> Path:
    """A file with this text."""
    path.write_text(text, encoding="utf-8")
    return path
