"""Work on SQLite databases in a process of its own, which is ended when its time or its memory is over.

Shared by the source of tables and by the host of scripts. SQLite interrupts a statement between two instructions of its
machine alone: one function over a long text is a single instruction. Some of its settings belong to the whole process.
So what a model may have written is never run in the process that keeps the ledger.
"""

from readback.systems.isolated.process import Ended as Ended
from readback.systems.isolated.process import answers as answers
from readback.systems.isolated.process import query as query
