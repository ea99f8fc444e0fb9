"""An agent delegates work to another one that lies twice, and is brought to do it.

Run it with `python examples/27-delegation.py`. It needs `pip install 'readback-ai[scripts]'`. The delegate is a
function here; `readback delegate` takes any command in its place.

Prints:
    turn 1: Write the report to report.txt.
    turn 2: VERIFICATION FAILED on the previous attempt: expected file does not exist
    turn 3: VERIFICATION FAILED on the previous attempt: expected file does not exist
    passed True after 3 attempts: I wrote report.txt.
    review_required, review_required, reconciled_success
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from readback import Readback, Turn, delegation

folder = tempfile.TemporaryDirectory()
report = Path(folder.name).resolve() / "report.txt"

EXISTS = """
def run(result):
    info = fs.stat(args["expected_path"])
    return json.encode({
        "verified": info != None,
        "reason": "" if info else "expected file does not exist",
    })
"""


@delegation(name="writer", verify=EXISTS, allow={"fs": [str(report.parent)]}, within="200ms")
def writer(turn: Turn) -> str:
    """The delegate. It says that it is done, and twice it is not."""
    print(f"turn {turn.attempt + 1}: {turn.prompt.splitlines()[0]}")
    if turn.attempt == 2:
        report.write_text("All is well.\n")
    return "I wrote report.txt."


with Readback.open("sqlite:///readback.db", tenant="acme", principal="agent:lead") as rb:
    done = writer.run(rb, "Write the report to report.txt.", args={"expected_path": str(report)})

print(f"passed {done.passed} after {done.attempts} attempts: {done.response}")
print(", ".join(outcome.state for outcome in done.outcomes))
writer.close()
folder.cleanup()
