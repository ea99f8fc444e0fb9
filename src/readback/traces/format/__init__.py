"""The format of a run: closed forms, ids, limits, codes, faults and the report."""
