"""Public: governed tools for an agent loop or framework, over one ledger.

`Kit` makes tools of actions, sagas and foreign callables. A tool's result is text for the model, data for the program,
and never an exception. `Kit.final` checks the answer that a user will see.
"""

from readback.kit.final import Corrections, FinalAnswer
from readback.kit.kit import Kit, UngovernedToolsWarning
from readback.kit.operations import ShownCall
from readback.kit.results import Attempt, ToolResult
from readback.kit.sagas import SagaDefinition, saga
from readback.kit.tools import Tool
from readback.kit.wording import is_result_text

__all__ = [
    "Attempt",
    "Corrections",
    "FinalAnswer",
    "Kit",
    "SagaDefinition",
    "ShownCall",
    "Tool",
    "ToolResult",
    "UngovernedToolsWarning",
    "is_result_text",
    "saga",
]
