"""Hooks of coding agents: what such an agent hands a program before and after a tool, and when it would stop."""
