"""What a recovery may rest on: paths between states, evidence of keys, and sending again."""
