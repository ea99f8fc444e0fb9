"""Transparency log without knowledge of actions: pure functions over bytes for the store and for proofs."""
