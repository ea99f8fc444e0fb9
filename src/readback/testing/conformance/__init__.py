"""Conformance suites: the promises of every store, source, sink, anchor, signer and queue."""
