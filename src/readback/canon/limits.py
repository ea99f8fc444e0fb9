"""Every bound on what may come in, as a named constant with its unit last.

Who calls it: whatever takes a value from outside (validation, normalisers, readers, stores, expressions).
It must not hold anything that an operator tunes per contract: these are the walls, not the furniture.
"""

from __future__ import annotations

from typing import Final

INTEGER_SAFE_MAX: Final = 2**53 - 1
"""Largest magnitude that every JSON reader keeps exactly (RFC 7493)."""
INTEGER_WIRE_MIN: Final = -(2**63)
INTEGER_WIRE_MAX: Final = 2**64 - 1
"""Integers of 64 bits; what lies beyond takes the slow path when it is written."""
NUMBER_DIGITS_MAX: Final = 800
"""Of a number, without zeros before the first digit: a double's exact value has at most 767."""
NUMBER_EXPONENT_MAX: Final = 400
"""Of a number's first digit, up and down: doubles end at 308 and -324."""
NUMBER_TEXT_MAX_CHARS: Final = 1_300
"""A longer text of a number is refused before it is converted."""

DEPTH_MAX_LEVELS: Final = 64
"""Nesting of one value. Below Python's and orjson's own recursion limits, so that ours speaks first."""
VALUE_MAX_NODES: Final = 200_000
"""Scalars and containers in one value: bounds shared sub-values, which are small in memory and huge when
written.
"""
KEY_MAX_BYTES: Final = 1_024
STRING_MAX_BYTES: Final = 1_048_576
PAYLOAD_MAX_BYTES: Final = 4_194_304
"""Arguments, an observation or a reading, in canonical form."""
EVIDENCE_MAX_BYTES: Final = 1_048_576
"""Raw tool output kept as evidence; more is cut, and the cut is recorded."""
ENVELOPE_MAX_BYTES: Final = 65_535
"""A ledger entry; the C2SP tile format gives an entry's length sixteen bits."""

EXPRESSION_MAX_BYTES: Final = 2_048
EXPRESSION_DEPTH_MAX_LEVELS: Final = 24
EXPRESSION_NESTED_LOOPS_MAX: Final = 2
EXPRESSION_ADDITIONS_MAX: Final = 16
EXPRESSION_TREE_MAX_LEVELS: Final = 96
"""Nesting of an expression's operations: a chain of `-` nests as brackets do."""
EXPRESSION_WORK_MAX: Final = 24_000_000
"""Steps of one evaluation: a character that is looked at is 1, a value that is visited is 128. A step is about a
nanosecond, so that the whole is well under a tenth of a second.
"""
EXPRESSION_EDITS_MAX: Final = 64
EXPRESSION_PATTERN_MAX_CHARS: Final = 1_000
EXPRESSION_NUMBER_MAX_DIGITS: Final = 1_000
"""Of what arithmetic takes and gives; comparing has no such bound, since it writes nothing out."""
EXPRESSION_EXPONENT_MAX: Final = 1_000_000
"""Of a number's exponent; a greater one is bounded before anything is computed with it."""

ID_MAX_BYTES: Final = 256
"""Principals, tenants, operation ids, action ids, stamps."""
MESSAGE_MAX_BYTES: Final = 4_096
"""One error or outcome text."""
