"""The programs of the benchmark: each tells success, failed or unknown of a task. One module and environment each."""
