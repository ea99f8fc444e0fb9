"""Checks of a compiled contract of a file: its readers, its places, and its tools."""
