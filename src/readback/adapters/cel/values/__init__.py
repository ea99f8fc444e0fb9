"""The values of expressions: kinds, numbers, times, texts, and which are equal."""
