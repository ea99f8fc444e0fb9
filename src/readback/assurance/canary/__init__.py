"""The canary: a candidate's verdicts beside the incumbent's, on the same evidence and never on an action's path."""
