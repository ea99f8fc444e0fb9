"""An action: the state folded from its entries, its claims, and the statuses of its record."""
