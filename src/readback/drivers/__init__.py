"""The drivers interpret the engine's effects for sync callers, event loops and virtual time."""
