"""A process started on a full ledger: time to the first due action, and memory."""

from __future__ import annotations

import json
import resource
import sys
import time

BEGAN = time.perf_counter()


def main(url: str, action_id: str) -> None:
    from readback.bench import workload
    from readback.client.client import Readback

    workload.WORLD["due"] = {"id": "due", "tenant": workload.TENANT, "status": "shipped", "carrier": "dhl"}
    with Readback.open(url, tenant=workload.TENANT, principal=workload.PRINCIPAL, actions=workload.ALL) as rb:
        moved = [outcome for outcome in rb.resume() if outcome.id == action_id and outcome.verified]
        seconds = time.perf_counter() - BEGAN
    if not moved:
        raise SystemExit("the due action was not advanced")
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"first_due_s": round(seconds, 3), "rss_mb": round(rss_mb)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3])
