"""An action: the fold of its entries, its claims, and what its record says."""
