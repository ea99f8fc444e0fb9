"""Envelopes of decision types: read and checked, their verifiers found, and bound to the contracts of actions.

A second front beside contract files: what an envelope adds to a contract is compiled into a plan like any other.
"""
