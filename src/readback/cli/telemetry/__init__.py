"""Commands of telemetry: spans of actions, and the export to a tracing backend."""
