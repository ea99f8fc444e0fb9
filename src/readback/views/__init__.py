"""Views of ledger facts: plain data, labels and sentences, the same for the command line, the API and the console."""
