"""Envelopes of decision types: read, checked, and bound to verifiers and to contracts of actions.

An envelope's additions to a contract are compiled into a plan, as contract files are.
"""
