"""An operator's declarations: contracts, approvers, freezes, watching and limits."""
