"""Contracts of this server, and runs: what a model may believe, and the check of an agent's final report."""

from __future__ import annotations

from typing import Any, Final

from readback.canon import Json
from readback.client.operations.grounding import CANNOT_TELL
from readback.client.proposal import Proposal
from readback.domain.contract.contract import describe
from readback.errors import ReadbackError
from readback.server.access.principal import Right
from readback.server.api import shapes
from readback.server.api.actions import proposed
from readback.server.api.answering import exact_object
from readback.server.ledgers import Ledgers, consuming
from readback.server.routing import Answer, Call, Reply, Route


def contract_summary(ledgers: Ledgers, name: str) -> shapes.ContractSummary:
    """Return a loaded contract's facts. Raises NotFoundError."""
    return shapes.ContractSummary(**_facts(ledgers, name))


def _facts(ledgers: Ledgers, name: str) -> dict[str, Any]:
    definition: Any = ledgers.definition(name)
    contract = definition.plan.contract
    return {
        "name": contract.name,
        "version": contract.version,
        "hash": contract.hash,
        "kind": contract.kind.value,
        "side_effect": contract.side_effect.value,
        "sandbox": definition.declared_twin is not None,
        "approval": contract.approval is not None,
        "reverses": contract.has_compensation,
    }


async def list_contracts(call: Call) -> Reply:
    """List the loaded contracts, by name."""
    found = [contract_summary(call.ledgers, name) for name in sorted(call.ledgers.registry)]
    return Reply(200, shapes.ContractList(found))


async def get_contract(call: Call) -> Reply:
    """Return a contract with the JSON Schema of its arguments."""
    definition: Any = call.ledgers.definition(call.path["name"])
    found: dict[str, Json] = {
        **_facts(call.ledgers, call.path["name"]),
        "arguments": dict(definition.arguments.schema),
        "contract": describe(definition.plan.contract),
    }
    return Reply(200, found)


async def check_contract(call: Call) -> Reply:
    """Check arguments without a call and without a record, and say whether an approval would be needed."""
    body: shapes.CheckRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test)
    arguments = exact_object(body.arguments, "arguments")
    proposal: Proposal = proposed(call.ledgers, call.path["name"], arguments, test=body.test, called=False)
    requested = proposal.requested
    with consuming([proposal]):
        needs = client.waits_for(proposal, operation=body.operation or call.request_id, run=body.run)
    return Reply(200, shapes.CheckView(True, needs, requested))


async def get_belief(call: Call) -> Reply:
    """Return what a model may believe about a run, from the current ledger."""
    client = call.ledgers.client(call.caller, test=call.query.test)
    belief = await client.belief(call.path["run"])
    return Reply(200, {**belief.as_json(), "message": belief.message, "for_model": belief.for_model()})


async def check_report(call: Call) -> Reply:
    """Check an agent's final text against the ledger, and return the text that may be shown."""
    body: shapes.ReportRequest = call.body
    client = call.ledgers.client(call.caller, test=body.test)
    found = await client.check_report(body.text, call.path["run"], every=body.every)
    if found.passed:
        safe = body.text
    else:
        try:
            safe = (await client.belief(call.path["run"])).message
        except ReadbackError:
            safe = CANNOT_TELL
    return Reply(200, {**found.as_json(), "safe": safe})


ROUTES: Final = (
    Route(
        "GET", "/v1/contracts", "listContracts", "List the contracts of the server.", list_contracts, Right.READ,
        (Answer(200, "The contracts, by name.", shapes.ContractList),), tag="contracts",
    ),
    Route(
        "GET", "/v1/contracts/{name}", "getContract", "Return a contract and the schema of its arguments.",
        get_contract, Right.READ, (Answer(200, "The contract.", shapes.ContractView),), tag="contracts",
        faults=(404,),
    ),
    Route(
        "POST", "/v1/contracts/{name}/check", "checkContract", "Check arguments without a call and without a record.",
        check_contract, Right.RUN, (Answer(200, "The arguments fit.", shapes.CheckView),), body=shapes.CheckRequest,
        tag="contracts", faults=(404, 413, 422, 503),
    ),
    Route(
        "GET", "/v1/runs/{run}/belief", "getBelief", "Return the belief of a run for a model.", get_belief,
        Right.READ, (Answer(200, "The belief.", shapes.BeliefView),), query=shapes.TestQuery, tag="runs",
        faults=(422, 503),
    ),
    Route(
        "POST", "/v1/runs/{run}/report", "checkReport", "Check an agent's final text against the ledger.",
        check_report, Right.READ, (Answer(200, "The check, and the text to show.", shapes.ReportView),),
        body=shapes.ReportRequest, tag="runs", faults=(413, 422, 503),
    ),
)  # fmt: skip
