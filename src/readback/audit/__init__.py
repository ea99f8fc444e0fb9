"""The ledger examined off an action's path: checks, records, replay, evidence, sealing, maintenance."""
