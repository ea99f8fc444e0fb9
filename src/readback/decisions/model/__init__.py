"""Decision types: what an envelope bounds, what it says when a bound is passed, and the record that is sealed.

Nouns and tables, pure; `lifecycle.deciding` enforces them. They are not a second engine: the action of a decision runs
as any other does, and its outcome is what is judged here.

Source: the decision-type specification.
"""
