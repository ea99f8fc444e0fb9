"""Recovery: the rows, the decision table, and the floor below every table."""
