import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import { AbortedError, ProblemError, Readback, UnreachableError, UsageError } from "readback-client";
import { Server } from "./server.js";

let server: Server;
let client: Readback;

before(async () => {
  server = await Server.start();
  client = server.client();
});
after(() => server.close());

const ship = (order: string, carrier = "dhl") => ({ order_id: order, carrier });

test("an effect that was read back is verified", async () => {
  const outcome = await client.run("ship", ship("o-1"), { operation: "ship o-1", run: "chat" });
  assert.equal(outcome.status, "verified");
  assert.equal(outcome.verified, true);
  assert.equal(outcome.state, "reconciled_success");
  assert.equal(server.calls("o-1"), 1);
});

test("the same operation executes once, and other arguments under its name are refused", async () => {
  const first = await client.run("ship", ship("o-2"), { operation: 'ship "o-2"' });
  const again = await client.run("ship", ship("o-2"), { operation: 'ship "o-2"' });
  assert.equal(again.id, first.id);
  assert.equal(again.action?.replayed, true);
  assert.equal(server.calls("o-2"), 1);
  await assert.rejects(client.run("ship", ship("o-2", "ups"), { operation: 'ship "o-2"' }), (error) => {
    assert.ok(error instanceof ProblemError);
    assert.deepEqual([error.status, error.code], [422, "input.payload-conflict"]);
    assert.notEqual(error.remedy, "");
    return true;
  });
});

test("a tool's lie is no success", async () => {
  const outcome = await client.run("ship", ship("o-3", "lie"), { operation: "lie" });
  assert.equal(outcome.verified, false);
  assert.equal(outcome.status, "not_verified");
  assert.ok(!outcome.forModel.includes("Shipped"));
});

test("a refuted effect is no success", async () => {
  const outcome = await client.run("ship", ship("o-4", "refuted"), { operation: "refuted" });
  assert.equal(outcome.verified, false);
  assert.equal(outcome.action?.verdict, "refuted");
});

test("an unknown effect blocks a second call, under the same name and as an attempt", async () => {
  const first = await client.run("ship", ship("o-5", "dark"), { operation: "dark", wait: 10 });
  assert.deepEqual([first.verified, first.inDoubt, first.status === "verified"], [false, true, false]);
  const second = await client.run("ship", ship("o-5", "dark"), { operation: "dark", wait: 1 });
  assert.equal(second.id, first.id);
  const attempt = await client.begin("ship", ship("o-5", "dark"), { operation: "dark" });
  assert.equal(attempt.allowed, false);
  assert.equal(server.calls("o-5"), 1);
});

test("a pending action is waited for", async () => {
  const pending = await client.run("slow", ship("o-6", "late"), { operation: "late", wait: 0.3 });
  assert.deepEqual([pending.status, pending.verified], ["pending", false]);
  writeFileSync(server.file("o-6", "arrived"), "");
  const outcome = await client.wait(pending.id, { wait: 30 });
  assert.equal(outcome.status, "verified");
});

test("an action that needs an approval is parked and not executed", async () => {
  assert.equal((await client.check("pay", ship("o-7"), { operation: "pay" })).needs_approval, true);
  const parked = await client.run("pay", ship("o-7"), { operation: "pay", wait: 1 });
  assert.deepEqual([parked.status, parked.verified, server.calls("o-7")], ["parked", false, 0]);
  assert.equal((await client.approval(parked.id)).current, true);
});

test("a call of the caller's own is durable before, and read back after", async () => {
  let durable = false;
  const outcome = await client.perform("ship", ship("o-8"), { operation: "own o-8" }, async ({ stamp, action }) => {
    durable = (await client.get(action)).action?.attempts === 1;
    server.write("o-8", stamp);
    return { status: "ok" };
  });
  assert.deepEqual([durable, outcome.status, server.calls("o-8")], [true, "verified", 0]);
  const again = await client.perform("ship", ship("o-8"), { operation: "own o-8" }, () => assert.fail("called again"));
  assert.equal(again.status, "verified");
});

test("a call of the caller's own that lies or throws is no success, and a thrown error is no failure", async () => {
  const lie = await client.perform("ship", ship("o-9"), { operation: "own lie" }, () => ({ status: "ok" }));
  assert.equal(lie.verified, false);
  const thrown = await client.perform("ship", ship("o-10"), { operation: "own throw" }, ({ stamp }) => {
    server.write("o-10", stamp);
    throw new Error("the connection broke after the effect");
  });
  assert.equal(thrown.status, "verified");
});

test("a report without an allowed attempt is refused", async () => {
  const outcome = await client.run("ship", ship("o-11"), { operation: "o-11" });
  await assert.rejects(client.report(outcome.id, { value: 1 }), (error) => error instanceof ProblemError && error.status === 422);
  const attempt = await client.begin("ship", ship("o-11"), { operation: "o-11" });
  assert.throws(() => attempt.report({ value: 1 }), UsageError);
});

test("problems are typed errors with the server's codes", async () => {
  const code = (error: unknown) => (error instanceof ProblemError ? `${error.status} ${error.code}` : String(error));
  const failing = async (work: Promise<unknown>) => code(await work.then(() => "no error", (error: unknown) => error));
  assert.match(await failing(client.run("none", {}, { operation: "x" })), /^404 /);
  assert.equal(await failing(client.run("ship", { order_id: 7 }, { operation: "x" })), "422 input.arguments");
  assert.equal(await failing(client.get("act_none")), await failing(client.get("act_other")));
  assert.equal(await failing(server.client({ token: "rbk_wrong" }).get("x")), "401 http.unauthenticated");
  const reader = server.client({ token: server.newToken("read") });
  assert.equal(await failing(reader.run("ship", ship("o-12"), { operation: "o-12" })), "403 http.missing-right");
  assert.equal(server.calls("o-12"), 0);
});

test("a value that JSON would change is refused before anything is sent", async () => {
  for (const bad of [NaN, 2 ** 60, new Date(0), () => 1]) {
    await assert.rejects(client.run("ship", { order_id: "o-13", carrier: bad as never }, { operation: "o-13" }), UsageError);
  }
  await assert.rejects(client.run("ship", ship("o-13"), { operation: "" }), UsageError);
  assert.throws(() => new Readback({ url: "http://127.0.0.1:1/path" }), UsageError);
  assert.equal(await client.find("ship", "o-13"), null);
});

test("an aborted signal sends nothing, and an abort in flight says that the request may have arrived", async () => {
  const aborted = client.run("ship", ship("o-14"), { operation: "o-14", signal: AbortSignal.abort() });
  await assert.rejects(aborted, (error) => error instanceof AbortedError && !error.sent);
  assert.equal(server.calls("o-14"), 0);
  const controller = new AbortController();
  const running = client.run("slow", ship("o-15", "late"), { operation: "o-15", wait: 30, signal: controller.signal });
  while ((await client.find("slow", "o-15")) === null) await new Promise(setImmediate);
  controller.abort();
  await assert.rejects(running, (error) => error instanceof AbortedError && error.sent && error.name === "AbortError");
});

test("a server out of reach throws where nothing was sent", async () => {
  const port = await new Promise<number>((resolve) => {
    const taken = createServer().listen(0, "127.0.0.1", () => {
      const found = (taken.address() as AddressInfo).port;
      taken.close(() => resolve(found));
    });
  });
  const nowhere = new Readback({ url: `http://127.0.0.1:${port}`, token: "x" });
  await assert.rejects(nowhere.run("ship", ship("o-16"), { operation: "o-16" }), (error) => {
    return error instanceof UnreachableError && !error.sent && error.code === "client.unreachable";
  });
});
