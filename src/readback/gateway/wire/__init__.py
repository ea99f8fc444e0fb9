"""Messages as bytes: lines, pipes, events of a stream, and texts that keep their form."""
