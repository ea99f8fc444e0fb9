"""An agent's belief about a run, made of outcomes only, and its texts."""
