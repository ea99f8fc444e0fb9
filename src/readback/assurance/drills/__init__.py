"""Running gates: injected faults, recoveries, surfaces, and readers of other releases."""
