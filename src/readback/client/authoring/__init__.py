"""Imports for authors of contracts: the decorator, `verified`, and the keys of both."""
