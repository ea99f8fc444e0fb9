"""Contract files: YAML in, the same contracts out that decorators make. Reaches no system and runs no action."""
