"""Systems by their names in contract files: settings, sources, executors and databases."""
