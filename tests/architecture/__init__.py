"""The house rules, executed: layers, one door, tidiness, public names, a project that speaks of itself."""
