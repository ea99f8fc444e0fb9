"""Servers behind the gateway: processes, connections and handshakes."""
