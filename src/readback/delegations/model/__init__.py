"""Delegations: actions whose executor is another agent, and whose answer is a claim like any tool's.

Source: the delegation verification specification.
"""
