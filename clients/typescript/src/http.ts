/** One request to the server: its text, its limits, and the three ways in which it ends. */

import { AbortedError, ProblemError, UnreachableError, UsageError, type Problem } from "./errors.js";

/** The settings of a client. */
export interface ClientOptions {
  /** The server's URL, such as `http://127.0.0.1:8787`. */
  url: string;
  /** A token of `readback token create`, or a function that returns one; "" for a server without tokens. */
  token?: string | (() => string | Promise<string>);
  /** Seconds to wait for a settled outcome, where a call names none. */
  wait?: number;
  /** Seconds beyond the wait until a request without an answer counts as lost. */
  timeout?: number;
  /** The `fetch` to use. */
  fetch?: typeof globalThis.fetch;
}

export interface Ask {
  method: "GET" | "POST";
  path: string;
  body?: string;
  headers?: Record<string, string>;
  wait?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface Answered {
  status: number;
  body: unknown;
  headers: Headers;
}

export const WAIT_MAX_S = 60;
const NOT_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

export class Http {
  readonly wait: number;
  private readonly url: string;
  private readonly token: () => string | Promise<string>;
  private readonly timeout: number;
  private readonly fetched: typeof globalThis.fetch;

  constructor(options: ClientOptions) {
    if (!/^https?:\/\/[^/?#@]+\/?$/.test(options.url)) {
      throw new UsageError(`url must be the server's origin (got ${JSON.stringify(options.url)}).`, "Example: http://127.0.0.1:8787");
    }
    this.url = options.url.replace(/\/$/, "");
    const token = options.token ?? "";
    this.token = typeof token === "function" ? token : () => token;
    this.wait = seconds("wait", options.wait ?? 10);
    this.timeout = seconds("timeout", options.timeout ?? 30);
    this.fetched = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** Send one request once, and return a described answer. Throws ProblemError, UnreachableError or AbortedError. */
  async ask(ask: Ask): Promise<Answered> {
    if (ask.signal?.aborted) throw new AbortedError(false, { cause: ask.signal.reason });
    const token = await this.token();
    const headers: Record<string, string> = { accept: "application/json", ...ask.headers };
    if (token) headers["authorization"] = `Bearer ${token}`;
    if (ask.body !== undefined) headers["content-type"] = "application/json";
    if (ask.wait !== undefined) headers["prefer"] = `wait=${ask.wait}`;
    const overdue = AbortSignal.timeout(((ask.wait ?? 0) + this.timeout) * 1000);
    const signal = ask.signal ? AbortSignal.any([ask.signal, overdue]) : overdue;
    let response: Response;
    let text: string;
    try {
      // A redirect would send the request and its token to another place.
      response = await this.fetched(this.url + ask.path, {
        method: ask.method,
        headers,
        signal,
        redirect: "error",
        ...(ask.body === undefined ? {} : { body: ask.body }),
      });
      text = await response.text();
    } catch (error) {
      if (ask.signal?.aborted) throw new AbortedError(true, { cause: error });
      throw new UnreachableError(`${ask.method} ${ask.path} got no answer: ${reason(error)}.`, connected(error), { cause: error });
    }
    return answered(ask, response, text);
  }
}

function answered(ask: Ask, response: Response, text: string): Answered {
  const media = (response.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase();
  let body: unknown;
  try {
    body = text === "" ? null : media?.endsWith("json") ? JSON.parse(text) : text;
  } catch (error) {
    throw new UnreachableError(`${ask.method} ${ask.path} got a cut or malformed answer.`, true, { cause: error });
  }
  if (media === "application/problem+json" && isProblem(body, response.status)) {
    const after = response.headers.get("retry-after");
    throw new ProblemError(body, after !== null && /^[0-9]{1,9}$/.test(after) ? Number(after) : null);
  }
  if (response.status >= 200 && response.status < 300) return { status: response.status, body, headers: response.headers };
  throw new UnreachableError(`${ask.method} ${ask.path} got status ${response.status} without a problem document.`, true);
}

function isProblem(body: unknown, status: number): body is Problem {
  const found = body as Partial<Problem> | null;
  return typeof found === "object" && found !== null && typeof found.code === "string" && typeof found.detail === "string" && found.status === status;
}

/** Return seconds between 0 and a day. Throws UsageError. */
export function seconds(name: string, value: number): number {
  if (typeof value === "number" && value >= 0 && value <= 86_400) return value;
  throw new UsageError(`${name} must be a number of seconds from 0 to 86400 (got ${String(value)}).`, `Pass ${name}: 30.`);
}

function connected(error: unknown): boolean {
  const cause = (error as { cause?: { code?: unknown; errors?: unknown } } | null)?.cause;
  const tried = Array.isArray(cause?.errors) ? (cause.errors as { code?: unknown }[]) : [cause];
  return !tried.every((each) => typeof each?.code === "string" && NOT_CONNECTED.has(each.code));
}

function reason(error: unknown): string {
  const cause = (error as { cause?: { code?: unknown } } | null)?.cause;
  if (typeof cause?.code === "string") return cause.code;
  return error instanceof Error ? error.message : String(error);
}
