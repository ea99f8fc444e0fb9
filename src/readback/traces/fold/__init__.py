"""One pass over a trace: what each event adds to what is known."""
