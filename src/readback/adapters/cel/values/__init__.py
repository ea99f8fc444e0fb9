"""The values of expressions: kinds, numbers, times, texts, and equality."""
