"""Contract files: parsing, compiling, running, the command line."""
