"""An action judged again out of its bundle, without a ledger, decision by decision, by the engine's own functions."""
