"""The grounds of a recovery: paths between states, evidence about keys, and sending again."""
