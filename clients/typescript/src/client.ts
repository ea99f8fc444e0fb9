/** The client: run actions, make attempts of the caller's own, look, wait, and read beliefs. */

import type { components } from "./api.js";
import { AbortedError, ProblemError, ReadbackError, UnreachableError, UsageError } from "./errors.js";
import { Http, WAIT_MAX_S, seconds, type Answered, type ClientOptions } from "./http.js";
import { evidenceJson, exactJson, type Arguments } from "./json.js";
import { Outcome, type Action } from "./outcome.js";

type Schemas = components["schemas"];
export type Belief = Schemas["BeliefView"];
export type ReportCheck = Schemas["ReportView"];
export type ContractSummary = Schemas["ContractSummary"];
export type Contract = Schemas["ContractView"];
export type ContractCheck = Schemas["CheckView"];
export type Approval = Schemas["ApprovalView"];
export type ActionSummary = Schemas["ActionSummary"];

/** What every look takes. `test`: the ledger of tests. */
export interface Look {
  test?: boolean;
  signal?: AbortSignal | undefined;
}

/** A look that waits for a settled outcome. `wait`: seconds. */
export interface Waiting extends Look {
  wait?: number;
}

/** The intent behind a call. */
export interface Intent extends Waiting {
  /** The name of the intent. The same name never executes twice. */
  operation: string;
  /** The run (such as a conversation) that the action belongs to. */
  run?: string;
  /** The plan step behind the action, for the record. */
  step?: string;
  /** A W3C `traceparent`, for the record. */
  traceparent?: string;
}

/** The intent behind an action that the server executes. */
export interface RunIntent extends Intent {
  /** The goal, if wider than the arguments. */
  intended?: Arguments;
  /** Claims or actions that must stand. */
  upon?: readonly string[];
}

/** How the caller's call ended. */
export type Ending = { readonly value: unknown } | { readonly error: unknown };

/** What the caller's call gets. */
export interface CallContext {
  /** The mark for the artefact. A stamp that is read back proves the effect to be this action's. */
  readonly stamp: string;
  readonly action: string;
  readonly operation: string;
  readonly signal: AbortSignal | undefined;
}

const REPORT_TRIES = 4;
const LOOK_TRIES = 4;
const PAUSE_MS = 100;
const ERROR_MAX_CHARS = 4_000;
const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/;

/** An attempt for a call of the caller's own. `allowed`: the attempt is durable, so make the call now, exactly once. */
export class Attempt {
  constructor(
    private readonly client: Readback,
    readonly allowed: boolean,
    readonly outcome: Outcome,
    private readonly test: boolean,
  ) {}

  /** The mark for the artefact; "" without an action. */
  get stamp(): string {
    return this.outcome.action?.stamp ?? "";
  }

  get id(): string {
    return this.outcome.id;
  }

  /** Report how the call ended, and return what was read back. See `Readback.report`. */
  report(ending: Ending, options: Waiting = {}): Promise<Outcome> {
    if (!this.allowed) throw new UsageError("No call was allowed, so there is no end to report.", "Use attempt.outcome.");
    return this.client.report(this.id, ending, { test: this.test, ...options });
  }
}

/** A client of one server, in the name of one token. */
export class Readback {
  private readonly http: Http;

  constructor(options: ClientOptions) {
    this.http = new Http(options);
  }

  /**
   * Let the server execute an action, and return what was read back.
   *
   * A request without an answer is not repeated: the client looks the operation up, and else returns an unknown outcome.
   * Throws ProblemError where the server refused the request, UnreachableError where nothing was sent, and AbortedError.
   */
  async run(contract: string, args: Arguments, intent: RunIntent): Promise<Outcome> {
    const body: Record<string, unknown> = { ...asked(contract, args, intent) };
    if (intent.intended !== undefined) body["intended"] = intent.intended;
    if (intent.upon !== undefined) body["upon"] = intent.upon;
    const wait = this.waitOf(intent);
    try {
      const answer = await this.http.ask({
        method: "POST", path: "/v1/actions", body: exactJson(body), headers: headersOf(intent), wait, signal: intent.signal,
      });
      return outcomeOf(answer);
    } catch (error) {
      return this.lost(contract, intent, error);
    }
  }

  /**
   * Make an attempt durable for a call of the caller's own. Make the call only where `allowed`, once, and report its end.
   *
   * A lost answer allows nothing, since the client cannot know who holds the attempt.
   * Throws ProblemError, UnreachableError where nothing was sent, and AbortedError.
   */
  async begin(contract: string, args: Arguments, intent: Intent): Promise<Attempt> {
    const test = intent.test ?? false;
    try {
      const answer = await this.http.ask({
        method: "POST", path: "/v1/attempts", body: exactJson(asked(contract, args, intent)), headers: headersOf(intent),
        signal: intent.signal,
      });
      const found = answer.body as Schemas["AttemptView"] | null;
      const outcome = Outcome.of(actionOf(found?.action));
      return new Attempt(this, answer.status === 201 && found?.allowed === true, outcome, test);
    } catch (error) {
      return new Attempt(this, false, await this.lost(contract, intent, error), test);
    }
  }

  /**
   * Report how a call ended, and return what was read back. The word of the caller is evidence, and never the verdict.
   *
   * The server records a report once, so a lost report is sent again, a few times. Then the outcome is unknown.
   */
  async report(id: string, ending: Ending, options: Waiting = {}): Promise<Outcome> {
    const said = "error" in ending ? `"error":${JSON.stringify(errorText(ending.error))}` : `"value":${evidenceJson(ending.value)}`;
    const body = `{${said},"test":${options.test === true}}`;
    const wait = this.waitOf(options);
    for (let tries = 1; ; tries += 1) {
      try {
        const path = `/v1/attempts/${encodeURIComponent(id)}/report`;
        return outcomeOf(await this.http.ask({ method: "POST", path, body, wait, signal: options.signal }));
      } catch (error) {
        if (!isLost(error)) throw error;
        if (tries >= REPORT_TRIES) return Outcome.unknown("", error, id);
        await pause(tries, options.signal);
      }
    }
  }

  /**
   * Call a tool of the caller's own under a durable attempt, and return what was read back.
   *
   * `call` runs at most once, and only where the attempt is durable. A thrown error is reported, and is no proof of a
   * failure. The report is sent also after an abort.
   */
  async perform(
    contract: string, args: Arguments, intent: Intent, call: (context: CallContext) => unknown,
  ): Promise<Outcome> {
    const attempt = await this.begin(contract, args, intent);
    if (!attempt.allowed) return attempt.outcome;
    const { operation, signal } = intent;
    let ending: Ending;
    try {
      ending = { value: await call({ stamp: attempt.stamp, action: attempt.id, operation, signal }) };
    } catch (error) {
      ending = { error };
    }
    try {
      const outcome = await attempt.report(ending, intent.wait === undefined ? {} : { wait: intent.wait });
      return outcome.action === null ? Outcome.unknown(operation, outcome.cause as Error, attempt.id) : outcome;
    } catch (error) {
      return Outcome.unknown(operation, error as Error, attempt.id); // the call was made, so no refusal is the end of it
    }
  }

  /** Return an action's outcome by the ledger, after a wait of `wait` seconds for a settled outcome. */
  async get(id: string, options: Waiting = {}): Promise<Outcome> {
    const wait = Math.min(seconds("wait", options.wait ?? 0), WAIT_MAX_S);
    const path = `/v1/actions/${encodeURIComponent(id)}${query({ test: options.test })}`;
    return outcomeOf(await this.http.ask({ method: "GET", path, wait, signal: options.signal }));
  }

  /** Wait up to `wait` seconds for a settled outcome, in as many requests as the time takes. */
  async wait(id: string, options: Waiting = {}): Promise<Outcome> {
    let left = seconds("wait", options.wait ?? this.http.wait);
    for (;;) {
      const wait = Math.min(left, WAIT_MAX_S);
      const outcome = await this.get(id, { ...options, wait });
      left -= wait;
      if (outcome.settled || left <= 0) return outcome;
    }
  }

  /** Return the outcome of an operation; null where the ledger has no such operation. */
  async find(contract: string, operation: string, options: Waiting = {}): Promise<Outcome | null> {
    const path = `/v1/actions${query({ contract, operation, test: options.test })}`;
    const answer = await this.http.ask({ method: "GET", path, signal: options.signal });
    const first = described<Schemas["ActionPage"]>(answer, "items", "object").items[0];
    return first === undefined ? null : this.get(first.id, options);
  }

  /** Stop an action: an unexecuted action is not executed, and a shown effect is compensated. */
  async cancel(id: string, options: Look & { unattempted?: boolean; reason?: string } = {}): Promise<Outcome> {
    const { signal, ...body } = options;
    const path = `/v1/actions/${encodeURIComponent(id)}/cancel`;
    return outcomeOf(await this.http.ask({ method: "POST", path, body: exactJson(body), signal }));
  }

  /** Bring the next reading of a waiting action forward. Returns whether an action was waiting. */
  async signal(id: string, options: Look = {}): Promise<boolean> {
    const path = `/v1/actions/${encodeURIComponent(id)}/signal`;
    const answer = await this.http.ask({ method: "POST", path, body: exactJson({ test: options.test }), signal: options.signal });
    return described<Schemas["SignalView"]>(answer, "woken", "boolean").woken;
  }

  /** List the loaded contracts. */
  async contracts(options: Look = {}): Promise<ContractSummary[]> {
    return (await this.look<Schemas["ContractList"]>("/v1/contracts", options, "items", "object")).items;
  }

  /** Return a contract with the JSON Schema of its arguments. */
  contract(name: string, options: Look = {}): Promise<Contract> {
    return this.look<Contract>(`/v1/contracts/${encodeURIComponent(name)}`, options, "arguments", "object");
  }

  /** Check arguments without a call and without a record. */
  async check(
    contract: string, args: Arguments, options: Look & { operation?: string; run?: string } = {},
  ): Promise<ContractCheck> {
    const { signal, ...rest } = options;
    const path = `/v1/contracts/${encodeURIComponent(contract)}/check`;
    const answer = await this.http.ask({ method: "POST", path, body: exactJson({ arguments: args, ...rest }), signal });
    return described<ContractCheck>(answer, "needs_approval", "boolean");
  }

  /** Return what a model may believe about a run. */
  belief(run: string, options: Look = {}): Promise<Belief> {
    const path = `/v1/runs/${encodeURIComponent(run)}/belief${query({ test: options.test })}`;
    return this.look<Belief>(path, options, "for_model", "string");
  }

  /** Check a final report against the ledger. `every`: every item outside `## Open` must cite. */
  async checkReport(run: string, text: string, options: Look & { every?: boolean } = {}): Promise<ReportCheck> {
    const { signal, ...rest } = options;
    const path = `/v1/runs/${encodeURIComponent(run)}/report`;
    const answer = await this.http.ask({ method: "POST", path, body: exactJson({ text, ...rest }), signal });
    return described<ReportCheck>(answer, "passed", "boolean");
  }

  /** Return the exact bytes that an approver signs. */
  approval(id: string, options: Look = {}): Promise<Approval> {
    const path = `/v1/approvals/${encodeURIComponent(id)}${query({ test: options.test })}`;
    return this.look<Approval>(path, options, "bytes", "string");
  }

  /** Hand in a signed approval or denial. Nothing is executed by this request. */
  async decide(id: string, decision: "approve" | "deny", token: string, options: Look = {}): Promise<Outcome> {
    const body = exactJson({ decision, token, test: options.test });
    const path = `/v1/approvals/${encodeURIComponent(id)}/tokens`;
    return outcomeOf(await this.http.ask({ method: "POST", path, body, signal: options.signal }));
  }

  private async look<T>(path: string, options: Look, field: keyof T & string, type: FieldType): Promise<T> {
    return described(await this.http.ask({ method: "GET", path, signal: options.signal }), field, type);
  }

  private waitOf(options: Waiting): number {
    return Math.min(seconds("wait", options.wait ?? this.http.wait), WAIT_MAX_S);
  }

  /** Return what the ledger says about a request without an answer. The request itself is not sent again. */
  private async lost(contract: string, intent: Intent, error: unknown): Promise<Outcome> {
    const inProgress = error instanceof ProblemError && error.code === "http.in-progress";
    if (!inProgress && (!isLost(error) || (error instanceof UnreachableError && !error.sent))) throw error;
    for (let tries = 1; tries <= LOOK_TRIES; tries += 1) {
      try {
        const found = await this.find(contract, intent.operation, {
          wait: this.waitOf(intent), signal: intent.signal, ...(intent.test === undefined ? {} : { test: intent.test }),
        });
        if (found !== null) return found;
      } catch (again) {
        if (again instanceof AbortedError) throw new AbortedError(true, { cause: again });
        if (!isLost(again)) break; // the token may not read, and the request stays without an answer
      }
      await pause(tries, intent.signal);
    }
    return Outcome.unknown(intent.operation, error as Error);
  }
}

function asked(contract: string, args: Arguments, intent: Intent): Record<string, unknown> {
  return { contract, arguments: args, run: intent.run, step: intent.step, test: intent.test };
}

function headersOf(intent: Intent): Record<string, string> {
  if (typeof intent.operation !== "string" || !KEY.test(intent.operation)) {
    throw new UsageError("operation must be 1 to 256 visible ASCII characters.", 'Name the intent, such as "refund order 1187".');
  }
  const quoted = `"${intent.operation.replace(/[\\"]/g, "\\$&")}"`;
  return { "idempotency-key": quoted, ...(intent.traceparent ? { traceparent: intent.traceparent } : {}) };
}

/** Whether the request's effect on the server is not known. A 500 is not trusted to have recorded nothing. */
function isLost(error: unknown): error is ReadbackError {
  return error instanceof UnreachableError || (error instanceof ProblemError && error.status === 500);
}

function actionOf(value: unknown): Action {
  const found = value as Partial<Action> | null | undefined;
  if (typeof found?.id === "string" && found.id && typeof found.state === "string" && typeof found.verified === "boolean"
    && typeof found.settled === "boolean" && typeof found.message === "string" && typeof found.for_model === "string") {
    return found as Action;
  }
  throw new UnreachableError("The answer holds no action.", true);
}

type FieldType = "string" | "boolean" | "object";

/** Return an answer that has a described field. Throws UnreachableError, such as for another server's page. */
function described<T>(answer: Answered, field: keyof T & string, type: FieldType): T {
  const found = answer.body as Record<string, unknown> | null;
  if (typeof found === "object" && found !== null && typeof found[field] === type && found[field] !== null) return found as T;
  throw new UnreachableError(`The answer has no \`${field}\`.`, true);
}

function outcomeOf(answer: Answered): Outcome {
  return Outcome.of(actionOf(answer.body));
}

function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.slice(0, ERROR_MAX_CHARS) || "an error without text";
}

function query(fields: Record<string, string | boolean | undefined>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) found.set(name, String(value));
  const text = found.toString();
  return text && `?${text}`;
}

function pause(tries: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const ended = (): void => {
      clearTimeout(timer);
      reject(new AbortedError(true));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", ended);
      resolve();
    }, PAUSE_MS * 2 ** (tries - 1));
    if (signal?.aborted) ended();
    else signal?.addEventListener("abort", ended, { once: true });
  });
}
