"""Servers of the SDK for tests: honest ones, and ones that lie when they are told to."""
