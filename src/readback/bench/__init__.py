"""How fast is it here: the hot path against the bare cost of its durable commits, in one run. Started by the CLI."""
