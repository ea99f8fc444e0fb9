"""A process that tells a subscriber what a ledger says, and may be killed: `python -m tests.sdk.teller URL HOOK`."""

from __future__ import annotations

import sys

from readback import Readback, Subscriber

PATIENT_S = 120.0


def main(url: str, hook: str) -> None:
    bus = Subscriber("bus", webhook=hook, secret="env:TELLER_SECRET", from_start=True, timeout_s=PATIENT_S)
    with Readback.open(url, tenant="acme", principal="agent:ops", subscribers=[bus]) as rb:
        rb.resume()
        rb._session.courier.deliver(PATIENT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
