"""Verification: observations, readings, the case, and the verdict over them."""
