"""Several actions as one: announced, begun, taken back, told and decided about, each by entries of the saga's own."""
