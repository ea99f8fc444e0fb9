"""The verbs: one stage a module, and the engine, which alone knows their order. Drivers do what it yields."""
