"""Work on SQLite databases in a separate process with limits for time and memory.

The source of tables and the host of scripts use this package. SQLite interrupts a statement only between two
instructions, and one function over a long text is a single instruction. Some settings of SQLite belong to the whole
process. So SQL from a model never runs in the process of the ledger.
"""

from readback.systems.isolated.process import Ended as Ended
from readback.systems.isolated.process import answers as answers
from readback.systems.isolated.process import query as query
