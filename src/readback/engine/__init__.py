"""The verbs: the stages of an action, and the engine with their order. No I/O here."""
