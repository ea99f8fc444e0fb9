"""An approver with a key outside the server and outside the browser.

`python -m tests.console.signing KEY NAME` reads the exact bytes of a request, and prints the signed token.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from readback import ApproverKey, bootstrap
from readback.canon import parse_json
from readback.domain.contract.approval import BOUND_MAX_BYTES, Decision, bound_from
from readback.engine.people.approvals import signed_token
from tests.console.scenes import PASSPHRASE


def main() -> None:
    """Sign the bytes of stdin. A key file that does not exist is made first."""
    place, name = Path(sys.argv[1]), sys.argv[2]
    key = ApproverKey.open(place, PASSPHRASE) if place.exists() else ApproverKey.create(place, PASSPHRASE)
    raw = sys.stdin.buffer.read()
    bound = bound_from(parse_json(raw, bytes_max=BOUND_MAX_BYTES))
    assert bound.bytes() == raw, "these are not the exact bytes"
    token = signed_token(bound, key, name, Decision.APPROVE, bootstrap.runtime().now_us())  # type: ignore[arg-type]
    sys.stdout.write(json.dumps(token.as_json()))


if __name__ == "__main__":
    main()
