"""Commands that agents start: the gateway, hooks, delegations and decisions."""
