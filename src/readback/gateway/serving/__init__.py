"""Serving clients over stdio and HTTP, in both eras of the protocol."""
