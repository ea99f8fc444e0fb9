"""Verifiers' scripts: the host functions, and the interpreter in worker processes."""
