"""`readback demo`: a scripted agent's morning at an order desk, on real local systems that fail and lie.

To learn the SDK, read in this order: `contracts` (the actions and their verification), `morning` (the agent's plan),
`agent` (execution through Readback; another process resumes after a kill). Then `contracts_trip` and `trips` (five
actions as one saga, with a pivot), and `delegated` (a delegate retried until its task is verified). `naive`, `facts`,
`tally` and `report` make the comparison. `systems` are external systems without any knowledge of Readback.
"""
