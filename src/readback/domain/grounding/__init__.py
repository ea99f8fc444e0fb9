"""Final reports of agents, held against the ledger: what a report cites, what it declares, and whether that stands.

`citation` is the form and its hash, `lookalikes` what deceives the eye, `layout` what a text declares by its structure,
`report` the check. Pure: the clients bring the evidence. No word of a report is guessed at.
"""
