"""One pass over a trace: each event adds to the known facts."""
