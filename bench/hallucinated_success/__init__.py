"""The benchmark of hallucinated success: patterns HS-01 to HS-14 of the specification, run by several programs.

Every program gets the same tools, the same faults and the same read paths. `python -m bench.hallucinated_success` runs
all of them, keeps the raw data in `results.json`, and writes `docs/hallucinated-success.md`.

Source: the action verification specification, "Hallucinated success".
"""
