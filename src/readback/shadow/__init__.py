"""Shadow mode without contracts: reading tools of the same server, and the report about a server's claims.

`pairs` proposes reading tools for the writing tools of a server. The gateway calls the allowed reading tools before and
after a call, and records both answers. `watched` reads the records from the ledger, `judging` compares the answers, and
`report` counts the results by tool.
"""
