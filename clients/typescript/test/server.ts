/** A real `readback serve` on loopback with a shop of files, for one test file. */

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Readback, type ClientOptions } from "readback-client";

const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const READBACK = process.env["READBACK"] ?? "readback";

export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "readback-ts-"));
  readonly environment: NodeJS.ProcessEnv = {
    ...process.env, SHOP: this.folder, READBACK_URL: `sqlite:///${this.folder}/ledger.db`, READBACK_CONTRACTS: "shop",
    READBACK_TOKENS_FILE: join(this.folder, "tokens.json"), XDG_CONFIG_HOME: this.folder,
  };
  url = "";
  token = "";
  private process: ChildProcess | undefined;

  static async start(): Promise<Server> {
    const server = new Server();
    server.approver("create");
    server.token = server.newToken("run", "read");
    await server.serve();
    return server;
  }

  /** Start the server at a free port, or again at the port of before. */
  async serve(): Promise<void> {
    const port = this.url ? new URL(this.url).port : "0";
    const child = spawn(READBACK, ["serve", "--port", port, "--json"], {
      cwd: join(PACKAGE, "test"), env: this.environment, stdio: ["ignore", "pipe", "inherit"],
    });
    this.process = child;
    process.once("exit", () => child.kill("SIGKILL"));
    this.url = await new Promise<string>((resolve, reject) => {
      createInterface({ input: child.stdout }).on("line", (line) => {
        const url = /"url": *"([^"]+)"/.exec(line)?.[1];
        if (url !== undefined) resolve(url);
      });
      child.once("exit", (code) => reject(new Error(`readback serve ended with ${code}`)));
    });
  }

  /** Run one command of `readback` on the server's ledger. */
  command(...words: string[]): string {
    return execFileSync(READBACK, words, { cwd: join(PACKAGE, "test"), env: this.environment, encoding: "utf8" });
  }

  /** The approver's own program, with a key that the server never sees. */
  approver(verb: "create" | "sign", input = ""): string {
    const words = [join(PACKAGE, "test", "approver.py"), verb, this.folder];
    return execFileSync(join(dirname(READBACK), "python"), words, { input, encoding: "utf8" });
  }

  newToken(...rights: string[]): string {
    return this.tokenOf("agent:ts", ...rights);
  }

  tokenOf(principal: string, ...rights: string[]): string {
    const asked = rights.flatMap((each) => ["--right", each]);
    const made = this.command("token", "create", "--tenant", "acme", "--principal", principal, "--json", ...asked);
    return (JSON.parse(made) as { token: string }).token;
  }

  client(options: Partial<ClientOptions> = {}): Readback {
    return new Readback({ url: this.url, token: this.token, ...options });
  }

  calls(order: string): number {
    const path = join(this.folder, "calls");
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").filter((each) => each === order).length : 0;
  }

  /** The caller's own call of the shop. */
  write(order: string, stamp: string, carrier = "dhl"): void {
    writeFileSync(this.file(order), JSON.stringify({ id: order, tenant: "acme", carrier, stamp }));
  }

  file(order: string, ending = "json"): string {
    return join(this.folder, `${order}.${ending}`);
  }

  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (!child || child.exitCode !== null) return;
    const over = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await over;
  }

  async close(): Promise<void> {
    await this.end();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
