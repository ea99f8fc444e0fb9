"""Files of an operator, read with the place of each value."""
