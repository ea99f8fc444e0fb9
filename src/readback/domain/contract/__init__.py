"""What an operator says: contracts, approvers, freezes, watching and limits."""
