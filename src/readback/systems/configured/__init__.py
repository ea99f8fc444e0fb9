"""Systems as contract files name them: settings, sources, executors and databases."""
