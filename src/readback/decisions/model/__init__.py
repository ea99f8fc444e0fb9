"""Decision types: the bounds of an envelope, the reports of passed bounds, and the sealed record.

Pure nouns and tables. `decisions.flow` enforces the bounds. The action of a decision runs in the usual engine, and this
package judges the outcome.

Source: the decision-type specification.
"""
