"""Release gates: checks of new verification logic before a release.

Verification logic is contracts, the recovery table and the package itself. A gate examines the candidate and returns a
`GateResult`. Nothing in the core imports this package, and no gate is on an action's path.

Source: the action verification specification, "Release gates".
"""
