"""Readback beside what its users would take instead, in one run: `python -m bench.side_by_side`; `make bench` calls it.

It builds an environment for each program, starts a PostgreSQL that really writes to the disk, lets the programs work in
turns, kills each of them in the middle of an action, and keeps the page `docs/benchmarks.md`.
"""
