"""Values in transit: copies for user code, results of readers, and redaction."""
