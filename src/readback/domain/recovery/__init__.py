"""What is done about each finding: the rows, the table that they make, and the floor that no table may fall below."""
