"""The command line: human text on stderr, machine answers on stdout. It starts things, and decides nothing."""
