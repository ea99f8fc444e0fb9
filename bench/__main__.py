"""`python -m bench`: what `readback bench` prints."""

import sys

from readback.bench.main import run_bench

raise SystemExit(run_bench("--json" in sys.argv, "--gateway" in sys.argv))
