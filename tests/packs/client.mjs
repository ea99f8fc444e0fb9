// A client of the official TypeScript SDK: says what it was told, a line for each thing that it did.
// node client.mjs FOLDER_OF_THE_SDK (http URL | stdio COMMAND...)
import { pathToFileURL } from "node:url";

const [sdk, how, ...where] = process.argv.slice(2);
const part = (name) => import(pathToFileURL(`${sdk}/dist/esm/${name}.js`));
const { Client } = await part("client/index");
const { StdioClientTransport } = await part("client/stdio");
const { StreamableHTTPClientTransport } = await part("client/streamableHttp");
const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = await part("types");

const [command, ...args] = where;
const transport =
  how === "http"
    ? new StreamableHTTPClientTransport(new URL(where[0]))
    : new StdioClientTransport({ command, args, env: process.env });
const client = new Client({ name: "ts", version: "1" }, { capabilities: { sampling: {}, elicitation: {}, roots: {} } });
const said = { role: "assistant", model: "m", content: { type: "text", text: "said" } };
client.setRequestHandler(CreateMessageRequestSchema, async () => said);
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Bo" } }));
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///r" }] }));

async function step(name, work) {
  const told = await work().catch((error) => ({ code: error.code, message: error.message }));
  console.log(`${name} ${JSON.stringify(told)}`);
}

await client.connect(transport);
await step("about", async () => [client.getServerVersion(), client.getServerCapabilities()]);
await step("tools", () => client.listTools());
for (const name of ["echo", "fail", "refuse", "sample", "elicit", "roots"]) {
  await step(name, () => client.callTool({ name, arguments: { a: 1 } }));
}
const leaving = new AbortController();
const options = { signal: leaving.signal, onprogress: ({ message }) => leaving.abort(`no more ${message}`) };
await step("wait", () => client.callTool({ name: "wait", arguments: {} }, undefined, options));
await step("resource", () => client.readResource({ uri: "file:///one" }));
await step("prompt", () => client.getPrompt({ name: "greet", arguments: { who: "Bo" } }));
await step("ping", () => client.ping());
await client.close();
