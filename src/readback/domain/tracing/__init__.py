"""Traces of an action, pure: W3C trace context, deterministic ids, and the attributes of a span."""
