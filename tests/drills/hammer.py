"""A process that runs the operations that it is told to, on real time, against a service that charges for every call.

    python -m tests.drills.hammer FOLDER URL

On stdin: `OPERATION CENTS` a line. On stdout: `ready`, and the outcome of each as JSON, or the code of its refusal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from readback import Readback
from readback.errors import PayloadConflictError
from tests.drills.charging import charging


def say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(folder: Path, url: str) -> None:
    charge = charging(url)
    with Readback.open(f"sqlite:///{folder}/ledger.db", tenant="acme", principal="agent:h", actions=[charge]) as rb:
        say("ready")
        for line in sys.stdin:
            operation, cents = line.split()
            try:
                say(rb.run(charge(account="ana", cents=int(cents)), operation=operation).as_json())
            except PayloadConflictError as error:
                say({"code": error.code})


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
