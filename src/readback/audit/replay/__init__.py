"""Replay of an action from its bundle, without a ledger, decision by decision, with the engine's own functions."""
