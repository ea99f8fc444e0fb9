"""The quality of contracts: examples, mutants, drift, and drafts from watched calls."""
