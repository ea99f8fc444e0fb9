"""The approver of the TypeScript client's tests. `create FOLDER` makes a key and lists it in the settings below FOLDER;
`sign FOLDER` reads the bytes to sign from the input in Base64, and prints the token.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

from readback import bootstrap
from readback.canon import parse_json
from readback.client.approving import ApproverKey
from readback.domain.contract.approval import Decision, bound_from
from readback.engine.people.approvals import signed_token

NAME = "human:alice"
PASSPHRASE = "correct horse battery staple"

verb, folder = sys.argv[1], Path(sys.argv[2])
if verb == "create":
    key = ApproverKey.create(folder / "alice.key", PASSPHRASE)
    (folder / "readback").mkdir(mode=0o700)
    settings = folder / "readback" / "config.toml"
    settings.write_text(f'[approvers."{NAME}"]\nkey = "{key.public_key}"\ntenants = ["acme"]\n', encoding="utf-8")
    settings.chmod(0o600)
else:
    key = ApproverKey.open(folder / "alice.key", PASSPHRASE)
    bound = bound_from(parse_json(base64.b64decode(sys.stdin.read())))
    now_us = bootstrap.runtime().now_us()
    sys.stdout.write(json.dumps(signed_token(bound, key, NAME, Decision.APPROVE, now_us).as_json()))
