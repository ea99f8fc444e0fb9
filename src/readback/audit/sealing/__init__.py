"""The log's head: accepted signatures, consistency, anchors, and confirmation of outcomes."""
