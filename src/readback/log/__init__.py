"""A log that knows nothing of actions: pure functions over bytes. The store and the proofs call it."""
