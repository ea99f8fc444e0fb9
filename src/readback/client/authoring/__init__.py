"""What authors of contracts import: the decorator, `verified`, and the keys of both."""
