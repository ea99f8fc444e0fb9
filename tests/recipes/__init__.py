"""Recipes against real servers that tell the truth, and lie, on demand."""
