"""The verbs: what is done to an action, stage by stage, and the engine that alone knows their order. No I/O here."""
