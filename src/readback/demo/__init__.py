"""`readback demo`: a scripted agent's morning at an order desk, on real local systems that fail and lie.

To learn the SDK, read in this order: `contracts` and `contracts_office` (the actions and their verification), `morning`
(the agent's plan), `agent` (execution through Readback), `worker` and `crash` (another process resumes after a kill).
Then `trip.contracts`, `trip.plan` and `trip.chapter` (five actions as one saga, with a pivot), and `delegated` (a
delegate retried until its task is verified). `naive`, `facts`, `tally` and `table` make the comparison. `systems` are
external systems without any knowledge of Readback.
"""
