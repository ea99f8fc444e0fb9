"""Messages as bytes: lines, pipes, stream events, and values with their original text."""
