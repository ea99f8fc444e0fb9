"""`readback demo`: a scripted agent's morning at an order desk, on real local systems, some of which lie.

Read it in this order to learn the SDK: `contracts` and `contracts_office` (what each action is, and who says that it is
done), `morning` (what the agent sets out to do), `agent` (how it runs that through Readback), `worker` and `crash` (how
another process goes on after a kill); then `trip_contracts`, `trip_plan` and `trip` (five actions as one saga, with a
point of no return), and `delegated` (a delegate that is sent again until its task is read back as done). `naive`,
`facts`, `tally` and `table` are the comparison, with `trip_naive` and what ends in `_tally` and `_table`; `systems` are
other people's systems, and know nothing of Readback.
"""
