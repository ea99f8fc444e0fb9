"""Expressions in a strict subset of CEL, by an engine of our own. Keeps the port `ports.predicates`; chosen by
`bootstrap`.

`lexer`, `parser` and `tree` read a text once; `checker` refuses what no data could mend; `compiler` makes closures of
the tree; `exact`, `alike`, `moments`, `texts`, `editing` and `functions` are what values can do.

Where it differs from the language's own definition, on purpose:

* Numbers are exact: whole ones of any size and decimals, compared and added as what they say; a JSON number is what its
  text says. What has no exact result is an error, and nothing is ever rounded.
* `==`, `!=`, `in` and the order between two kinds of value (a text and a number, say) are an error, not `false`: a
  postcondition on a value of the wrong type is undetermined, neither violated nor, behind a `!=`, satisfied. Null may
  be compared with anything, all numbers with each other.
* Steps are counted, for each value and each character that is visited, before they are done.
* Added: `sha256`, `dec_eq`, `dec_cmp`, `contains_all`, `contains_any`, `edited`, `lowerAscii`, `upperAscii`, `trim`,
  `nfc`. Left out: messages, optional values, names of time zones, unsigned numbers as a type of their own.
"""

from __future__ import annotations

from readback.adapters.cel.engine import CelBinding, CelPredicate, CelPredicates

__all__ = ["CelBinding", "CelPredicate", "CelPredicates"]
