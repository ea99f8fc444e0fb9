import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ProblemError, Readback, UnreachableError, finalText } from "readback-client";
import { Server } from "./server.js";

let server: Server;

before(async () => {
  server = await Server.start();
});
after(() => server.close());

const ship = (order: string, carrier = "dhl") => ({ order_id: order, carrier });
const broken = (): never => {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }) });
};

/** A network that delivers requests, and then loses the answers that `lost` names. */
function lossy(lost: (method: string, path: string, nth: number) => boolean) {
  const sent: string[] = [];
  const fetched: typeof fetch = async (input, init) => {
    const path = new URL(String(input)).pathname;
    const method = init?.method ?? "GET";
    sent.push(`${method} ${path}`);
    const nth = sent.filter((each) => each === `${method} ${path}`).length;
    const response = await fetch(input, init);
    await response.clone().text();
    return lost(method, path, nth) ? broken() : response;
  };
  return { sent, client: server.client({ fetch: fetched }) };
}

test("a lost answer to a run is looked up, and the request is not sent again", async () => {
  const { sent, client } = lossy((method) => method === "POST");
  const outcome = await client.run("ship", ship("n-1"), { operation: "n-1" });
  assert.equal(outcome.status, "verified");
  assert.equal(sent.filter((each) => each === "POST /v1/actions").length, 1);
  assert.equal(server.calls("n-1"), 1);
});

test("a lost answer that cannot be looked up is unknown, and never a success or a failure", async () => {
  const { sent, client } = lossy(() => true);
  const outcome = await client.run("ship", ship("n-2"), { operation: "n-2" });
  assert.deepEqual([outcome.status, outcome.verified, outcome.inDoubt, outcome.state], ["not_verified", false, true, "unknown"]);
  assert.match(outcome.forModel, /Do not call again/);
  assert.ok(outcome.cause instanceof UnreachableError);
  assert.equal(sent.filter((each) => each === "POST /v1/actions").length, 1);
  assert.equal((await server.client().find("ship", "n-2"))?.status, "verified");
  assert.equal(server.calls("n-2"), 1);
});

test("a lost answer to a begin allows no call", async () => {
  const { client } = lossy((method) => method === "POST");
  const outcome = await client.perform("ship", ship("n-3"), { operation: "n-3", wait: 0.3 }, () => assert.fail("called"));
  assert.equal(outcome.verified, false);
  assert.notEqual(outcome.id, "");
});

test("a lost report is sent again and recorded once, and the tool is called once", async () => {
  const { sent, client } = lossy((_, path, nth) => path.endsWith("/report") && nth < 3);
  let calls = 0;
  const outcome = await client.perform("ship", ship("n-4"), { operation: "n-4" }, ({ stamp }) => {
    calls += 1;
    server.write("n-4", stamp);
  });
  assert.deepEqual([outcome.status, calls], ["verified", 1]);
  assert.equal(sent.filter((each) => each.endsWith("/report")).length, 3);
});

test("reports that stay lost leave the outcome unknown under the action's id", async () => {
  const { client } = lossy((_, path) => path.endsWith("/report"));
  const outcome = await client.perform("ship", ship("n-5"), { operation: "n-5" }, () => "ok");
  assert.deepEqual([outcome.verified, outcome.inDoubt, outcome.operation], [false, true, "n-5"]);
  assert.equal((await server.client().get(outcome.id)).verified, false);
});

test("an answer of a proxy is no verdict", async () => {
  const answers: [number, string, string][] = [
    [502, "text/html", "<h1>Bad gateway</h1>"],
    [200, "application/json", "{"],
    [200, "application/json", '{"verified": true}'],
    [200, "text/html", "verified"],
    [500, "application/problem+json", '{"type":"/problems#internal","title":"x","status":500,"code":"internal","detail":"x"}'],
  ];
  for (const [status, type, body] of answers) {
    const proxied = server.client({ fetch: async () => new Response(body, { status, headers: { "content-type": type } }) });
    const outcome = await proxied.run("ship", ship("n-6"), { operation: "n-6" });
    assert.deepEqual([outcome.verified, outcome.inDoubt, outcome.state], [false, true, "unknown"], `${status} ${body}`);
    const attempt = await proxied.begin("ship", ship("n-6"), { operation: "n-6" });
    assert.equal(attempt.allowed, false);
    assert.equal((await finalText(proxied, "chat", "All done.")).ok, false);
  }
  assert.equal(server.calls("n-6"), 0);
});

test("a refused report after the call is unknown, and no error that hides the call", async () => {
  const { client } = lossy(() => false);
  const denied = server.client({
    fetch: async (input, init) =>
      String(input).endsWith("/report") ? fetch(input, { ...init, headers: { ...init?.headers, authorization: "Bearer no" } }) : fetch(input, init),
  });
  const outcome = await denied.perform("ship", ship("n-7"), { operation: "n-7" }, () => "ok");
  assert.ok(outcome.cause instanceof ProblemError);
  assert.deepEqual([outcome.verified, outcome.inDoubt], [false, true]);
  assert.equal((await client.begin("ship", ship("n-7"), { operation: "n-7" })).allowed, false);
});

test("a process that dies between begin and report leaves one effect, which is read and not repeated", async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL("./dies.js", import.meta.url)), server.url, server.token, server.folder], {
    stdio: "inherit",
  });
  const [, signal] = (await once(child, "exit")) as [number | null, string | null];
  assert.equal(signal, "SIGKILL");
  assert.ok(existsSync(server.file("n-8")), "the effect was made");
  const client = server.client();
  const again = await client.perform("ship", ship("n-8"), { operation: "n-8", wait: 0.3 }, () => assert.fail("called again"));
  assert.deepEqual([again.verified, again.inDoubt], [false, true]);
  assert.equal(await client.signal(again.id), true);
  assert.equal((await client.wait(again.id, { wait: 30 })).status, "verified");
});

test("a server that dies during the caller's call takes the report after its restart", async () => {
  const client = server.client();
  const outcome = await client.perform("ship", ship("n-9"), { operation: "n-9" }, async ({ stamp }) => {
    await server.end("SIGKILL");
    server.write("n-9", stamp);
    await server.serve();
    return "ok";
  });
  assert.equal(outcome.status, "verified");
});

for (const [name, page] of [["a page", "<html>Welcome</html>"], ["null", "null"], ["an empty object", "{}"]] as const) {
  test(`another server that answers 200 with ${name} is unreachable, and allows nothing`, async () => {
    const type = page.startsWith("<") ? "text/html" : "application/json";
    const other = createServer((_, answer) => answer.writeHead(200, { "content-type": type }).end(page)).listen(0, "127.0.0.1");
    await once(other, "listening");
    const client = new Readback({ url: `http://127.0.0.1:${(other.address() as AddressInfo).port}` });
    for (const asked of [
      () => client.contracts(), () => client.contract("ship"), () => client.check("ship", ship("n-9")), () => client.belief("r"),
      () => client.checkReport("r", "Done."), () => client.approval("a"), () => client.find("ship", "n-9"), () => client.get("a"),
      () => client.signal("a"),
    ]) {
      await assert.rejects(asked(), UnreachableError);
    }
    const outcome = await client.perform("ship", ship("n-9"), { operation: "n-9" }, () => assert.fail("called"));
    assert.deepEqual([outcome.verified, outcome.inDoubt], [false, true]);
    other.closeAllConnections();
    other.close();
  });
}
