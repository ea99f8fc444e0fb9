"""Claims on the way of an action: entries that say what became of them, reports, and whoever was planned upon one."""
