"""Files in a folder that nothing leaves: written in one step, read back by size and hash, looked at from outside.

Run it with `python examples/03-files.py`.

Prints:
    written:  reconciled_success, attribution ours
    spoiled:  review_required, value_mismatch
    outside:  review_required, error; nothing is there: True
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from readback import Context, Readback, Reading, action
from readback.systems import FileExecutor, FileSource

folder = tempfile.TemporaryDirectory()
work = Path(folder.name) / "work"
work.mkdir()
writing = FileExecutor(work)
reading = FileSource("work", work)
spoiling = False


@action(
    kind="set",
    side_effect="ephemeral_write",
    target="file/{requested.path}",
    identity={"target": "authoritative.path"},
    ensure={
        "same bytes": "authoritative.sha256 == sha256(requested.text)",
        "a plain file": "authoritative.kind == 'file'",
    },
    redact=["requested.text"],
    tell=["size"],
    within="200ms",
)
def write_note(ctx: Context, path: str, text: str) -> object:
    """What is written bears the stamp, where the file system can hold it."""
    return writing.write_text(ctx, path, text.upper() if spoiling else text, parents=True)


@write_note.read(source="work", consistency="strong", independence="other_client", attributes=True)
def note_on_disk(ctx: Context, path: str, text: str) -> Reading:
    return reading.stat(path)


def main() -> None:
    global spoiling
    with folder, Readback.open(f"sqlite:///{folder.name}/readback.db", tenant="acme", principal="agent:ops") as rb:
        written = rb.run(write_note(path="notes/today.txt", text="call ben"), operation="note 1")
        print(f"written:  {written.state}, attribution {written.attribution}")

        spoiling = True
        spoiled = rb.run(write_note(path="notes/tomorrow.txt", text="call ana"), operation="note 2")
        print(f"spoiled:  {spoiled.state}, {spoiled.discrepancy}")

        spoiling = False
        outside = rb.run(write_note(path="../passwd", text="call eve"), operation="note 3")
        assert outside.observation is not None
        nothing = not (work.parent / "passwd").exists()
        print(f"outside:  {outside.state}, {outside.observation.status}; nothing is there: {nothing}")


if __name__ == "__main__":
    main()
