"""Contract files for these tests: one contract of an order, and its examples."""

from __future__ import annotations

from textwrap import dedent, indent

from readback.contracts.files.contract import FileContract
from tests.contract_files.writing import contract, loaded

ORDER = """
    kind: set
    side_effect: low_risk_internal
    target: order/{requested.order_id}
    arguments: {order_id: string, status: string}
    execute: {command: {argv: ["true"]}}
    readers:
      - sql: {database: orders.db, query: "select * from orders where id = {requested.order_id}"}
    identity: {tenant: authoritative.tenant, target: authoritative.id}
    ensure:
      status: authoritative.status == requested.status
    within: 2s
"""
SHIPPED = """
    it is shipped:
      requested: {order_id: o1, status: shipped}
      before: {id: o1, tenant: default, status: open, total: 3}
      state: {id: o1, tenant: default, status: shipped, total: 3}
      expect: verified
"""
WHOLE = (
    SHIPPED
    + """
    it is not: {like: it is shipped, but: {state.status: open}, expect: refuted}
    another order: {like: it is shipped, but: {state.id: o2}, expect: undetermined}
    another tenant: {like: it is shipped, but: {state.tenant: other}, expect: undetermined}
"""
)


def order(examples: str = SHIPPED, more: str = "", base: str = ORDER) -> str:
    """A file with the contract of an order and these examples."""
    body = dedent(base).strip("\n") + "\n" + dedent(more).strip("\n") + "\n"
    if examples:
        body += "examples:\n" + indent(dedent(examples).strip("\n"), "  ") + "\n"
    return contract(body)


def compiled(text: str) -> FileContract:
    """The one contract of a file without faults."""
    found = loaded(text)
    assert found.faults == ()
    return found.contracts["one"]
