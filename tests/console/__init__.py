"""The console: pages, forms and the static report, over a real server and a real ledger."""
