"""Sagas: several actions as one, each move recorded in entries of the saga's own."""
