"""Serve clients over stdio and HTTP, in both protocol eras."""
