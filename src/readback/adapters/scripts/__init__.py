"""Scripts of verifiers: the host functions, and the interpreter in worker processes."""
