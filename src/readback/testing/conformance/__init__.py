"""Conformance suites: what every store, source, sink, anchor, signer and queue has to keep."""
