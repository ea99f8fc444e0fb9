"""The console: HTML pages of the ledger for people. `console_app` is mounted at every path outside the API."""
