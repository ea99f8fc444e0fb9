"""Services over HTTP: one request that acts, and reading JSON."""
