"""Ledger work off an action's path: checks, records, replay, evidence, sealing, maintenance."""
