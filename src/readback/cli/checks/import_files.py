"""`readback import`: read files of other systems as evidence. No ledger is opened and no code of the files runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from readback.cli import options
from readback.cli.terminal import BAD, NONE, OK, OPEN, console, mark, print_json, safe, value
from readback.decisions.contracts.document import FILE_MAX_BYTES
from readback.decisions.interop.decision_files import import_drift, import_envelope, import_episode
from readback.decisions.interop.delegation_files import import_hook, import_tool
from readback.decisions.interop.imported import LEDGER_MAX_BYTES, Imported, import_claims
from readback.decisions.interop.run_folder import read_given
from readback.decisions.interop.trace_runs import import_trace
from readback.domain.state import EXIT_FAILED
from readback.domain.verdict import Verdict
from readback.errors import UsageError
from readback.traces import TraceError

KINDS: Final[Mapping[str, Callable[[bytes, str], Imported]]] = {
    "episode": import_episode,
    "envelope": import_envelope,
    "drift": import_drift,
    "claims": import_claims,
    "tool": import_tool,
    "hook": import_hook,
}
TRACE: Final = "trace"
STATEMENTS_SHOWN_MAX: Final = 40


@click.command("import", short_help="Import files of other systems as evidence.")
@click.argument("kind", type=click.Choice([*KINDS, TRACE]), metavar="KIND")
@click.argument("file", metavar="FILE")
@options.as_json
def import_files(kind: str, file: str, as_json: bool) -> int:
    """Read FILE of another system and print every statement with its evidence, none as a verdict.

    \b
    KIND is one of
      episode   a sealed decision episode; the seal is recomputed
      envelope  a decision type's envelope, JSON or YAML
      drift     a drift event
      claims    a claim or verification ledger, one JSON object a line
      tool      a tool file of a delegating agent
      hook      a hook file of a delegating agent
      trace     the folder of a reasoning run; the checks run

    A result called passed by another system was not read back here and counts as not checked. Without evidence the
    result is undetermined (unverifiable). A malformed file is refused with every reason.

    Exit code 0: read; 1: the seal or the trace does not hold; 2: another kind of file.
    """
    if kind == TRACE:
        found = import_trace(Path(file))
    else:
        bytes_max = LEDGER_MAX_BYTES if kind == "claims" else FILE_MAX_BYTES
        found = KINDS[kind](content_of(file, bytes_max), file)
    if as_json:
        print_json(found.as_json())
    else:
        tell(found)
    return 0 if found.sound else EXIT_FAILED


def content_of(file: str, bytes_max: int = FILE_MAX_BYTES) -> bytes:
    """The bytes of a regular file, not a link. Raises UsageError."""
    try:
        return read_given(Path(file), bytes_max, "file")
    except TraceError as error:
        raise UsageError(error.message, remedy="Name a readable regular file.") from error


def tell(found: Imported) -> None:
    """The statements of a file, in lines."""
    from rich.text import Text

    out = console()
    checked = found.seal is not None or found.kind == TRACE  # a file without a seal proves nothing, not even itself
    sign = BAD if not found.sound else OK if checked else NONE
    out.print(Text.assemble(mark(sign), " ", (f"{found.kind}", "bold"), f"  sha256 {found.sha256}"), soft_wrap=True)
    if found.seal is not None:
        said = f"holds, by {found.seal}" if found.seal else "DOES NOT HOLD by any known rule"
        out.print(Text(f"  seal: {said}"))
    if found.facts:
        out.print(Text("  our checks of it:" if found.kind == TRACE else "  what the file says:"))
    for name, fact in found.facts.items():
        out.print(Text(f"    {safe(name)}: {value(fact)}"), soft_wrap=True)
    for each in found.statements[:STATEMENTS_SHOWN_MAX]:
        open_ = each.verdict is Verdict.UNDETERMINED
        why = f" ({each.why.value})" if open_ else ""
        line = f" {safe(each.subject)}: says {safe(each.said)!r}; {each.verdict.value.replace('_', ' ')}{why}"
        out.print(Text.assemble("  ", mark(OPEN if open_ else NONE), line), soft_wrap=True)
        for said in each.notes:
            out.print(Text(f"      note: {safe(said)}"), soft_wrap=True)
    left = len(found.statements) - STATEMENTS_SHOWN_MAX
    if left > 0:
        out.print(Text(f"  and {left} more; --json has them all"))
    for said in found.notes:
        out.print(Text(f"  note: {safe(said)}"), soft_wrap=True)
