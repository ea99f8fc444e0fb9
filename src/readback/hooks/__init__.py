"""Hooks of coding agents: programs run before and after each tool call, and at the end of a turn."""
