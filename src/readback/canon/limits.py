"""Every limit on input, as a named constant with its unit last.

Used by all code with values from outside (validation, normalisers, readers, stores, expressions). These limits are
fixed: settings per contract belong elsewhere.
"""

from __future__ import annotations

from typing import Final

INTEGER_SAFE_MAX: Final = 2**53 - 1
"""Largest magnitude kept exactly by every JSON reader (RFC 7493)."""
INTEGER_WIRE_MIN: Final = -(2**63)
INTEGER_WIRE_MAX: Final = 2**64 - 1
"""Integers of 64 bits. Larger integers take the slow path of the writer."""
NUMBER_DIGITS_MAX: Final = 800
"""Digits of a number, without leading zeros. A double's exact value has at most 767."""
NUMBER_EXPONENT_MAX: Final = 400
"""Exponent of a number's first digit, up and down. Doubles end at 308 and -324."""
NUMBER_TEXT_MAX_CHARS: Final = 1_300
"""A longer number text is refused before conversion."""

DEPTH_MAX_LEVELS: Final = 64
"""Nesting of one value. Lower than the recursion limits of Python and orjson, so our error comes first."""
VALUE_MAX_NODES: Final = 200_000
"""Scalars and containers in one value. Bounds shared sub-values, small in memory and huge in written form."""
KEY_MAX_BYTES: Final = 1_024
STRING_MAX_BYTES: Final = 1_048_576
PAYLOAD_MAX_BYTES: Final = 4_194_304
"""Arguments, an observation or a reading, in canonical form."""
EVIDENCE_MAX_BYTES: Final = 1_048_576
"""Raw tool output stored as evidence. Longer output is cut, and the cut is recorded."""
ENVELOPE_MAX_BYTES: Final = 65_535
"""A ledger entry. The C2SP tile format has sixteen bits for an entry's length."""

EXPRESSION_MAX_BYTES: Final = 2_048
EXPRESSION_DEPTH_MAX_LEVELS: Final = 24
EXPRESSION_NESTED_LOOPS_MAX: Final = 2
EXPRESSION_ADDITIONS_MAX: Final = 16
EXPRESSION_TREE_MAX_LEVELS: Final = 96
"""Nesting of an expression's operations. A chain of `-` nests like brackets."""
EXPRESSION_WORK_MAX: Final = 24_000_000
"""Steps of one evaluation: 1 for each inspected character, 128 for each visited value. A step takes about a nanosecond,
so the maximum is well under a tenth of a second.
"""
EXPRESSION_EDITS_MAX: Final = 64
EXPRESSION_PATTERN_MAX_CHARS: Final = 1_000
EXPRESSION_NUMBER_MAX_DIGITS: Final = 1_000
"""Digits of operands and results of arithmetic. Comparison writes no digits, and has no such limit."""
EXPRESSION_EXPONENT_MAX: Final = 1_000_000
"""A number's exponent in arithmetic. A larger exponent is limited before any computation."""

ID_MAX_BYTES: Final = 256
"""Principals, tenants, operation ids, action ids, stamps."""
MESSAGE_MAX_BYTES: Final = 4_096
"""One error or outcome text."""
