"""LangGraph again, with as many savers as connections: what somebody writes who knows that a saver has one lock."""

from __future__ import annotations

from functools import partial

from bench.against.langgraph_graph import CONNECTIONS, opened
from bench.against.slices import serve_threads

if __name__ == "__main__":
    serve_threads(partial(opened, savers=CONNECTIONS))
