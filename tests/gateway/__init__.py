"""The gateway, between real clients and real servers."""
