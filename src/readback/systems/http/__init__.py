"""Services over HTTP: one acting request, and JSON reads."""
