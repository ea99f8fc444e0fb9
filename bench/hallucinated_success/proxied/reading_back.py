"""The read-back of programs that leave the reading to a command or a plugin of ours. Standard library alone.

`python -m ...reading_back PORT KIND SECONDS` polls the task's primary until the question holds or the time is over. It
prints Fourgate's typed reply, and ends with 1 where no reading was answered.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request

from bench.hallucinated_success.tasks import WANTED

PAUSE_S = 0.05


def read_back(port: str, kind: str, seconds: float) -> bool | None:
    """Return whether the question holds in time; None where no reading was answered."""
    until, answered = time.monotonic() + seconds, False
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1) as said:
                row = json.load(said)
        except urllib.error.HTTPError:
            row = {}
        except OSError:
            time.sleep(PAUSE_S)
            continue
        answered = True
        if all(row.get(name) == value for name, value in WANTED[kind].items()):
            return True
        time.sleep(PAUSE_S)
    return False if answered else None


if __name__ == "__main__":
    sys.stdin.read()
    held = read_back(sys.argv[1], sys.argv[2], float(sys.argv[3]))
    if held is None:
        raise SystemExit(1)
    print(json.dumps({"status": "pass"} if held else {"status": "fail", "reason_code": "field_mismatch"}))
