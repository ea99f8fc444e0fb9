"""Drift of contracts: the live server and source against the last verified use on record."""
