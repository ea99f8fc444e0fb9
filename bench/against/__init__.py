"""The programs that are measured side by side: one for each way to make an action durable.

Each runs in an environment of its own, so nothing here imports anything of another; `work` and `slices`, which all of
them share, need the standard library alone.
"""
