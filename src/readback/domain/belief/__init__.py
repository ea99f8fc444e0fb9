"""What an agent may believe of a run, made of outcomes and nothing else, and its words."""
