"""The house rules, executed: layers, one door, tidiness, public names, and a project that speaks of itself."""
