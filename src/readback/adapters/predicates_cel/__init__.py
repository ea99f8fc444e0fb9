"""Expressions in CEL, by Google's cel-cpp. Keeps the port `ports.predicates`; chosen by `bootstrap`.

It must not be given anything but plain JSON values: a datetime or a Decimal inside a map poisons the
whole map.

Where it differs from the language's own definition, on purpose:

* `==` and `!=` between two kinds of value (a text and a number, say) are an error, not `false`: a
  postcondition on a value of the wrong type is undetermined, neither violated nor, behind a `!=`,
  satisfied. Null may be compared with anything, all numbers with each other. Timestamps are compared to
  the microsecond. `in` compares in the same way: where nothing was equal and something of another kind, it is an error.
* `+` does not join texts or bytes, where the check can see that they are (of a reading it cannot see it),
  and an evaluation whose estimated cost is too high is not begun: iterations times the size of what is read
  in each, and the square of what `map` and `filter` go through (the library copies its list in each step).
  The library itself stops at 10,000 iterations and 32 levels.
* Added: `sha256(text or bytes)`, `dec_eq(a, b)` and `dec_cmp(a, b)` on exact decimals, `contains_all(list, parts)`,
  `contains_any(list, parts)`,
  `edited(text, [[old, new], ...])`.
"""

from __future__ import annotations

from readback.adapters.predicates_cel.engine import CelBinding, CelPredicate, CelPredicates

__all__ = ["CelBinding", "CelPredicate", "CelPredicates"]
