"""Public: Readback for smolagents. `ReadbackAgent` is a ToolCallingAgent whose tools and answers are governed.

smolagents has no pause and no error flag. A parked call is reported as parked, and `resume` continues with the person's
answer. Code of a CodeAgent makes calls without a derived operation; give such a contract `key_fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from readback.frameworks.history import History, Turn
from readback.frameworks.versions import check_version, of_framework
from readback.kit import Kit, Tool, ToolResult, is_result_text

with of_framework("smolagents", "smolagents"):
    import smolagents
    from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep
    from smolagents.memory import ToolCall as MemoryCall
    from smolagents.monitoring import Timing

check_version("smolagents", distribution="smolagents", lowest="1.22", below="1.27")

FINAL_TOOL = "final_answer"
_TYPES = {"string", "boolean", "integer", "number", "array", "object", "null"}


class ReadbackTool(smolagents.Tool):
    """A governed tool of a kit as a smolagents tool."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, governed: Tool) -> None:
        self.governed = governed
        self.name, self.description = governed.name, governed.description
        self.inputs = _inputs(governed.schema)
        super().__init__()

    def forward(self, **arguments: Any) -> str:
        """Run the call without a derived operation, as code of a CodeAgent does."""
        return self.governed.run(arguments).text


def _inputs(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arguments in smolagents' form, with a type and a description for each."""
    required = schema.get("required", ())
    found: dict[str, dict[str, Any]] = {}
    for name, each in schema.get("properties", {}).items():
        kind = each.get("type")
        known = kind in _TYPES if isinstance(kind, str) else bool(kind) and set(kind or ()) <= _TYPES
        found[name] = {**each, "type": kind if known else "any", "description": each.get("description") or name}
        if name not in required:
            found[name]["nullable"] = True
    return found


def tools(kit: Kit) -> list[ReadbackTool]:
    """Return every tool of the kit."""
    return [ReadbackTool(each) for each in kit.tools.values()]


class ReadbackAgent(smolagents.ToolCallingAgent):
    """A ToolCallingAgent whose actions and final answers are reconciled.

    Args:
        kit: The open kit. The kit's tools are added, and tools with a contract file are governed.
        run: The conversation's id, the same after a restart; the kit's current run where left out.
        corrections: How often a refused answer goes back to the model before the reconciled text replaces the answer.
        options: The arguments of ToolCallingAgent.
    """

    def __init__(
        self, *, kit: Kit, tools: Iterable[Any] = (), run: str | None = None, corrections: int = 1, **options: Any
    ) -> None:
        self._kit, self._run, self._corrections, self._corrected = kit, run, corrections, 0
        self._turn = Turn()
        given = list(tools)
        foreign = [each for each in given if not isinstance(each, ReadbackTool) and kit.governs(each.name)]
        for each in foreign:
            kit.govern(each.name, _schema(each), _way(each), description=each.description)
        names = {each.name for each in foreign}
        kit.warn_ungoverned("smolagents", [each.name for each in given if each.name != FINAL_TOOL])
        kept = [each for each in given if not isinstance(each, ReadbackTool) and each.name not in names]
        checks = [*(options.pop("final_answer_checks", None) or ()), self.readback_check]
        governed = [ReadbackTool(each) for each in kit.tools.values()]
        super().__init__(tools=[*kept, *governed], final_answer_checks=checks, **options)

    @property
    def conversation(self) -> str:
        """The run in the ledger."""
        return self._run or self._kit.current_run

    def process_tool_calls(self, *arguments: Any, **named: Any) -> Generator[Any, None, None]:
        """Begin a step. Identical calls of a step are counted from 0."""
        self._turn = Turn(_history(self.memory.steps))
        yield from super().process_tool_calls(*arguments, **named)

    def execute_tool_call(self, tool_name: str, arguments: Any) -> Any:
        """Run a governed tool under its operation; other tools run as before."""
        tool = self.tools.get(tool_name)
        if not isinstance(tool, ReadbackTool):
            return super().execute_tool_call(tool_name, arguments)
        return self._ran(tool.governed, self._substitute_state_variables(arguments)).text

    def _ran(self, tool: Tool, arguments: Any) -> ToolResult:
        place = self._turn.begin(tool.name, arguments)
        operation = self._kit.operation(tool, arguments, run=self.conversation, **place)
        return tool.run(arguments, operation=operation, run=self.conversation)

    def readback_check(self, final_answer: Any, *_: Any, **__: Any) -> bool:
        """Return an answer against the ledger to the model."""
        found = self._kit.final(str(final_answer), run=self.conversation)
        if found.ok or self._corrected >= self._corrections:
            return True
        self._corrected += 1
        raise ValueError(found.correction)

    def _run_stream(self, *arguments: Any, **named: Any) -> Generator[Any, None, None]:
        """Hold the events of a step until the step's end, and the last step until the check of the answer."""
        self._corrected = 0
        held: list[Any] = []
        for event in super()._run_stream(*arguments, **named):
            if isinstance(event, FinalAnswerStep):
                found = self._kit.final(str(event.output), run=self.conversation)
                if found.ok:
                    yield from held
                    yield event
                else:
                    yield FinalAnswerStep(found.text)
                return
            held.append(event)
            if isinstance(event, ActionStep | PlanningStep) and not _answers(event):
                yield from held
                held = []

    def resume(self, task: str, answers: Mapping[str, Any], **options: Any) -> Any:
        """Continue after a person's answers: decide each parked action, show the results to the model, and run.

        `answers`: by action id: a token, False for a rejection, or None to look again.
        """
        for action, answer in answers.items():
            result = self._kit.decide(action, answer)
            name = getattr(result.outcome, "contract", "") or action
            call = MemoryCall(name=name, arguments={}, id=action)
            number = len(self.memory.steps)
            self.memory.steps.append(
                ActionStep(step_number=number, timing=Timing(0.0, 0.0), tool_calls=[call], observations=result.text)
            )
        return self.run(task, reset=False, **options)


def _answers(step: Any) -> bool:
    """Whether a step holds an answer: the last, or a refused answer."""
    calls = getattr(step, "tool_calls", None) or ()
    return bool(getattr(step, "is_final_answer", False)) or any(call.name == FINAL_TOOL for call in calls)


def _history(steps: Iterable[Any]) -> History:
    """Return the results in the memory. Several calls of a step share a text, so the text is left out there."""
    history = History()
    for step in steps:
        if not isinstance(step, ActionStep) or step.tool_calls is None or step.observations is None:
            continue
        text = step.observations if len(step.tool_calls) == 1 and is_result_text(step.observations) else ""
        for call in step.tool_calls:
            history.add_call(call.id, call.name, call.arguments or {})
            history.add_result(call.id, text)
    return history


def _schema(tool: Any) -> dict[str, Any]:
    properties = {name: {k: v for k, v in each.items() if k != "nullable"} for name, each in tool.inputs.items()}
    required = [name for name, each in tool.inputs.items() if not each.get("nullable")]
    for each in properties.values():
        if each.get("type") == "any":
            del each["type"]
    return {"type": "object", "properties": properties, "required": required}


def _way(tool: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda arguments: tool(**arguments)
