"""Capacity: what is measured here at three sizes, the model that predicts each from the smaller ones, and what it says
of a hundred thousand actions a second. `python -m bench.scale` prints it; docs/scale.md keeps it.
"""
