"""Shadow mode without contracts: reading tools of the same server, and the report about a server's claims.

`pairs` proposes reading tools for the writing tools of a server. The gateway calls the allowed ones before and after a
call, and records both answers. `watched` reads these records from the ledger, `judging` compares them, and `report`
counts them by tool.
"""
