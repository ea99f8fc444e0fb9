"""Ports: protocols with contracts in their docstrings. The engine calls them, adapters implement them."""
