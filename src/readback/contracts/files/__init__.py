"""Contract files: YAML in, the decorators' contracts out. Reaches no system and runs no action."""
