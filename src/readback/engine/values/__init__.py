"""Values on their way: copies for user code, results of readers, and what is redacted."""
