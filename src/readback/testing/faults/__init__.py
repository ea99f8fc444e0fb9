"""Fault injection for contracts: the faults, simulated worlds, and the verdict on each run. Public."""
