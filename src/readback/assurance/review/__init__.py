"""Review of changes: acknowledgements by people, changed predicates and terms, and changed recovery rows."""
