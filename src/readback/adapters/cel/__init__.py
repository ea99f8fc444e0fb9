"""Expressions in a strict subset of CEL, evaluated by our own engine. Implements the port `ports.predicates`. Chosen by
`bootstrap`.

`lexer`, `parser` and `tree` read a text once. `checker` rejects errors independent of data. `compiler` turns the tree
into closures. `exact`, `alike`, `moments`, `texts`, `editing` and `functions` define the operations on values.

Deliberate differences from the CEL specification:

* Numbers are exact: integers of any size and decimals. A JSON number means its text. A result without an exact number
  is an error; nothing is rounded.
* `==`, `!=`, `in` and the order between two kinds of value (for example a text and a number) are an error, not `false`.
  A postcondition on a value of the wrong type is undetermined: neither violated nor, behind a `!=`, satisfied. Null
  compares with anything, and all numbers compare with each other.
* Steps are counted for each visited value and character, before the work.
* Added: `sha256`, `dec_eq`, `dec_cmp`, `contains_all`, `contains_any`, `edited`, `lowerAscii`, `upperAscii`, `trim`,
  `nfc`. Left out: messages, optional values, names of time zones, unsigned numbers as a type of their own.
"""

from __future__ import annotations

from readback.adapters.cel.engine import CelBinding, CelPredicate, CelPredicates

__all__ = ["CelBinding", "CelPredicate", "CelPredicates"]
