"""Commands that process due actions: `resume` and `worker`."""
