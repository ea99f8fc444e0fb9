"""Verified upload: put under a key with its SHA-256, and believed when the object's head shows size, digest and stamp.

Run it with `python examples/21-verified-upload.py`. It needs `pip install 'readback-ai[s3]' 'moto[s3]' flask
flask-cors`: a server of objects that lies on request is started here, and stands for yours.

Prints:
    whole:     reconciled_success, digest known by: whole
    in parts:  reconciled_success, digest known by: read
    lost:      unknown, no_op_failure
    cut short: review_required, value_mismatch
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from readback import Outcome, Readback
from readback.recipes import measured, verified_upload
from readback.systems import S3Executor, S3Source
from readback.testing import S3Server
from readback.testing.runtime_virtual import VirtualRuntime

if find_spec("boto3") is None or find_spec("moto") is None or find_spec("flask_cors") is None:
    sys.exit("This example needs: pip install 'readback-ai[s3]' 'moto[s3]' flask flask-cors")

PART_BYTES = 5_242_880


def main() -> None:
    with (
        S3Server("reports") as server,
        tempfile.TemporaryDirectory() as folder,
        S3Executor("store", "reports", **server.access, part_bytes=PART_BYTES, sole=True) as store,
        S3Source("shelf", "reports", **server.access) as shelf,
        Readback.open(
            f"sqlite:///{folder}/readback.db", tenant="acme", principal="agent:desk", runtime=VirtualRuntime(seed=21)
        ) as rb,
    ):
        upload = verified_upload(store, shelf)

        def put(key: str, data: bytes, fault: str = "") -> Outcome:
            file = Path(folder, key)
            file.write_bytes(data)
            if fault:
                server.fault(fault)
            return rb.run(upload(key=key, **measured(file)), operation=f"put {key}")

        for name, data in (("whole", b"All of it."), ("in parts", b"x" * PART_BYTES + b"and the rest")):
            told = put(name, data)
            assert isinstance(told.authoritative, dict)
            print(f"{name + ':':10} {told.state}, digest known by: {told.authoritative['checksum']}")
        for name, fault in (("lost", "lost"), ("cut short", "truncated")):
            told = put(name, b"All of it.", fault)
            print(f"{name + ':':10} {told.state}, {told.discrepancy}")


if __name__ == "__main__":
    main()
