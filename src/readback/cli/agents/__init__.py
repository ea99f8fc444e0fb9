"""Commands that agents start: gateway, hooks, delegations and decisions."""
