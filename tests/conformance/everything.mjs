// A server of the TypeScript SDK with all that the conformance suite asks for, answered by `fixtures.json`.
//
// Over stdio; with `--http` on a free port of loopback, whose address it prints. Where the SDK lies is named by the
// folder that this is run in: packages are looked for from there.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";
import path from "node:path";

const from = createRequire(path.join(process.cwd(), "anything.js"));
const load = (name) => import(pathToFileURL(from.resolve(name)).href).then((found) => found.default ?? found);
const sdk = await load("@modelcontextprotocol/server");
const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler } = await load("@modelcontextprotocol/node");

const FIXTURES = JSON.parse(readFileSync(new URL("fixtures.json", import.meta.url), "utf8"));
const ASKED = { "sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots" };
const CAPABILITIES = {
  tools: { listChanged: true }, prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true }, logging: {}, completions: {},
};
const RECONNECT_MS = 200;
const RETRY_MS = 100;
const seal = sdk.createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
const sessions = new Map();

// --- input that is required first ---

const answers = (request, answer) => {
  if (request.method !== "elicitation/create") return answer !== undefined;
  return request.params.requestedSchema.required.every((key) => answer?.content?.[key] !== undefined);
};

// What is asked first; undefined where everything is there.
async function required(ctx, told) {
  const given = ctx.mcpReq.inputResponses ?? {};
  let index = ctx.mcpReq.requestState()?.round ?? 0;
  if (Object.entries(told.rounds[index]).every(([key, request]) => answers(request, given[key]))) index += 1;
  if (index === told.rounds.length) return undefined;
  let requests = told.rounds[index];
  if (told.able) {
    const able = ctx.mcpReq.envelope?.[sdk.CLIENT_CAPABILITIES_META_KEY] ?? {};
    requests = Object.fromEntries(Object.entries(requests).filter(([, each]) => able[ASKED[each.method]] !== undefined));
  }
  return sdk.inputRequired({
    inputRequests: requests,
    ...(told.state ? { requestState: await seal.mint({ round: index, once: randomUUID() }) } : {}),
  });
}

// --- tools ---

async function called(server, told, args, ctx) {
  if (told.error) throw new Error(told.error);
  if (told.needs && ctx.mcpReq.inputResponses === undefined) {
    return sdk.inputRequired({
      inputRequests: {
        needed: sdk.inputRequired.createMessage({
          messages: [{ role: "user", content: { type: "text", text: "Hello?" } }], maxTokens: 16,
        }),
      },
    });
  }
  if (told.rounds) {
    const asked = await required(ctx, told);
    if (asked) return asked;
  }
  if (told.asks) return asking(ctx, told.asks, args);
  for (const line of told.logs ?? []) await ctx.mcpReq.log("info", line);
  const progressToken = ctx.mcpReq._meta?.progressToken;
  for (const progress of progressToken === undefined ? [] : (told.progress ?? [])) {
    await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
  }
  if (told.changes) changed(server, told.changes);
  if (told.reconnect) {
    sessions.get(ctx.sessionId)?.closeSSEStream(ctx.mcpReq.id);
    await new Promise((done) => setTimeout(done, RECONNECT_MS));
  }
  return { content: told.content };
}

async function asking(ctx, asks, args) {
  const params = structuredClone(asks.params);
  if (args?.prompt !== undefined) params.messages[0].content.text = args.prompt;
  if (args?.message !== undefined) params.message = args.message;
  const found = await ctx.mcpReq.send({ method: asks.method, params });
  const said = found.content?.text ?? `action=${found.action}, ${JSON.stringify(found.content ?? {})}`;
  return { content: [{ type: "text", text: `The client said: ${said}` }] };
}

function changed(server, kind) {
  if (kind === "tools") {
    modern.notify.toolsChanged();
    if (!process.argv.includes("--http")) server.sendToolListChanged();
  } else {
    modern.notify.promptsChanged();
    if (!process.argv.includes("--http")) server.sendPromptListChanged();
  }
}

// --- the whole server ---

function made() {
  const server = new sdk.McpServer(
    { name: "everything", version: "1" },
    { capabilities: CAPABILITIES, requestState: { verify: seal.verify } },
  );
  for (const [name, told] of Object.entries(FIXTURES.tools)) {
    const about = { description: told.description, inputSchema: sdk.fromJsonSchema(told.inputSchema) };
    server.registerTool(name, about, (args, ctx) => called(server, told, args, ctx));
  }
  for (const [name, told] of Object.entries(FIXTURES.prompts)) {
    const properties = Object.fromEntries(told.arguments.map((each) => [each, { type: "string" }]));
    const schema = sdk.fromJsonSchema({ type: "object", properties, required: told.arguments });
    const about = { description: told.description, ...(told.arguments.length ? { argsSchema: schema } : {}) };
    server.registerPrompt(name, about, async (first, second) => {
      const [args, ctx] = second === undefined ? [{}, first] : [first, second];
      const asked = told.rounds ? await required(ctx, told) : undefined;
      if (asked) return asked;
      let text = JSON.stringify(told.messages);
      for (const [key, value] of Object.entries(args)) text = text.replaceAll(`{${key}}`, value);
      return { messages: JSON.parse(text) };
    });
  }
  for (const [uri, { name, ...found }] of Object.entries(FIXTURES.resources)) {
    server.registerResource(name, uri, { mimeType: found.mimeType }, async () => ({ contents: [{ uri, ...found }] }));
  }
  for (const [template, { name, ...found }] of Object.entries(FIXTURES.templates)) {
    const about = new sdk.ResourceTemplate(template, { list: undefined });
    server.registerResource(name, about, { mimeType: found.mimeType }, async (uri, { id }) => ({
      contents: [{ uri: uri.href, ...found, text: found.text.replaceAll("{id}", id) }],
    }));
  }
  server.server.setRequestHandler("logging/setLevel", async () => ({}));
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  server.server.setRequestHandler("completion/complete", async () => ({
    completion: { values: [], total: 0, hasMore: false },
  }));
  return server;
}

const modern = sdk.createMcpHandler(made, {});

// --- over HTTP ---

function events() {
  const kept = [];
  return {
    async storeEvent(stream, message) {
      kept.push({ stream, message });
      return String(kept.length);
    },
    async replayEventsAfter(last, { send }) {
      const { stream } = kept[Number(last) - 1];
      for (let index = Number(last); index < kept.length; index += 1) {
        const { stream: of, message } = kept[index];
        if (of === stream && message?.jsonrpc) await send(String(index + 1), message);
      }
      return stream;
    },
  };
}

async function opened() {
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: events(),
    retryInterval: RETRY_MS,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await made().connect(transport);
  return transport;
}

const refuse = (response, status, message) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32_000, message } }));
};

async function serve(request, response) {
  const { headers, method } = request;
  if (!/^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(headers.host ?? "")) return refuse(response, 403, "not here");
  const parts = [];
  for await (const part of request) parts.push(part);
  let body;
  try {
    body = parts.length ? JSON.parse(Buffer.concat(parts).toString()) : undefined;
  } catch {
    return refuse(response, 400, "no JSON");
  }
  const asked = {
    httpMethod: method, body,
    protocolVersionHeader: headers["mcp-protocol-version"], mcpMethodHeader: headers["mcp-method"],
  };
  if (method === "POST" && sdk.classifyInboundRequest(asked).kind !== "legacy") {
    return toNodeHandler(modern)(request, response, body);
  }
  const session = headers["mcp-session-id"];
  if (session === undefined && method === "POST" && sdk.isInitializeRequest(body)) {
    return (await opened()).handleRequest(request, response, body);
  }
  const transport = sessions.get(session);
  if (transport === undefined) return refuse(response, session === undefined ? 400 : 404, "no such session");
  return transport.handleRequest(request, response, body);
}

if (process.argv.includes("--http")) {
  const http = createServer((request, response) => void serve(request, response));
  http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
  process.on("SIGTERM", () => process.exit(0));
} else {
  serveStdio(made);
}
