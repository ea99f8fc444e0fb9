"""Claims during an action: entries about their status, reports, and dependent actions."""
