"""The drivers: each does what the engine asks for, for sync callers, event loops and virtual time."""
