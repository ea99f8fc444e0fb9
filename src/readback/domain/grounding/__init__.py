"""Checks of agents' final reports against the ledger: the cited results, the declared results, and their standing.

`citation` is the form and its hash, `confusables` the deceptive letters, `layout` the declarations by a text's
structure, `report` the check. Pure: the clients bring the evidence. The wording of a report is not interpreted.
"""
