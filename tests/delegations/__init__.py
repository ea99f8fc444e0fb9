"""Delegations: agents' work that is read back, and their verifiers."""
