"""Tools of servers as their servers list them."""
