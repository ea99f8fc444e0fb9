"""Reports of release gates. The JSON document is the truth, and every other form is made from the same results."""
