"""Delegations: another agent executes an action and is called again after a refuting reading."""
