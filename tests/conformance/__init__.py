"""The protocol's own conformance suite, directly against two SDKs' servers and through the gateway."""
