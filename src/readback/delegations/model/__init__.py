"""Delegations: actions with another agent as executor. The agent's answer is a claim like the answer of any tool.

Source: the delegation verification specification.
"""
