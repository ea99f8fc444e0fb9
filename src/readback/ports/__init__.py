"""Promises: Protocols whose docstrings are contracts. Lifecycle calls them, adapters keep them."""
