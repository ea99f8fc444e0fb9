"""The command line: human text on stderr, machine answers on stdout. Starts things, decides nothing."""
