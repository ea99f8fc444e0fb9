"""`readback bench`: the hot path compared with the bare cost of its durable commits, in one run."""
