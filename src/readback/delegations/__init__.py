"""Delegations: another agent as the executor of an action, sent again while a reading refutes."""
