"""LangGraph: a graph with the tool as a node under a `RetryPolicy`, and a checkpointer; its end is the result.

As the documents on fault tolerance and on persistence say. The policy retries the tool's exceptions, four calls in all.
"""

from __future__ import annotations

from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from bench.hallucinated_success.programs.serving import serve
from bench.hallucinated_success.tasks import FAILED, SUCCESS, Task


class State(TypedDict, total=False):
    """What goes from node to node."""

    order_id: str
    answer: Any


def run(task: Task) -> str:
    def tool(state: State) -> State:
        return {"answer": task.call(state["order_id"])}

    builder = StateGraph(State)
    policy = RetryPolicy(max_attempts=4, initial_interval=0.01, jitter=False, retry_on=OSError)
    builder.add_node("tool", tool, retry_policy=policy)
    builder.add_edge(START, "tool")
    builder.add_edge("tool", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    try:
        graph.invoke({"order_id": "o1"}, {"configurable": {"thread_id": task.name}})
    except OSError:
        return FAILED
    return SUCCESS


if __name__ == "__main__":
    serve(run)
