"""Shadow mode: recorded and judged, and told to the operator alone."""
