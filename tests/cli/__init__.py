"""The command line, in process and as real processes: what it answers, what it refuses, how it ends."""
