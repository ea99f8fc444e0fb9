"""Decision types: the bounds of an envelope, its reports of passed bounds, and the sealed record.

Nouns and tables, pure; `decisions.flow` enforces them. There is no second engine: the action of a decision runs like
any other, and its outcome is judged here.

Source: the decision-type specification.
"""
