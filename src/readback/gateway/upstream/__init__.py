"""Servers behind the gateway: their processes, connections and handshakes."""
