/** Tools of the Vercel AI SDK under a durable attempt: the model reads what was read back, and not what a tool said. */

import { jsonSchema, type JSONSchema7, type ModelMessage, type Tool } from "ai";
import type { CallContext, Readback } from "./client.js";
import { AbortedError, ProblemError, UnreachableError, UsageError } from "./errors.js";
import { exactJson, type Arguments } from "./json.js";
import { CANNOT_TELL, Outcome, type Status } from "./outcome.js";

export { finalText, type FinalText } from "./final.js";

/** A governed tool. */
export interface GovernedOptions {
  /** The contract on the server. */
  contract: string;
  /** The run that every call belongs to, such as the conversation's id. The run must survive a restart. */
  run: string;
  /** What the model reads about the tool. */
  description: string;
  /** The tool's name in `tools`; the contract's name by default. */
  name?: string;
  /** The caller's own call, made at most once under a durable attempt. Without `execute` the server makes the call. */
  execute?: (args: Arguments, context: CallContext) => unknown;
  /** The name of a call's intent. By default the run, the tool, the arguments, and the count of equal verified calls. */
  operation?: (args: Arguments, messages: readonly ModelMessage[]) => string | Promise<string>;
  /** Seconds to wait for a settled outcome. */
  wait?: number;
  /** Run against the contract's sandbox. */
  test?: boolean;
}

/** The output of a governed tool. It holds no word of the tool itself. */
export interface GovernedOutput {
  status: Status;
  verified: boolean;
  /** The only text for users. */
  message: string;
  /** The only text for the model. */
  forModel: string;
  /** The action's id; "" without an action. */
  action: string;
  operation: string;
  /** A stable error code; "" without one. */
  code: string;
}

/** The tool's type in the AI SDK. */
export type GovernedTool = Tool<Arguments, GovernedOutput>;

/**
 * Return a tool of the AI SDK for a contract. The input's schema is the contract's own.
 *
 * `needsApproval` records nothing. An approval of the host alone executes nothing: the server holds the action until a
 * signed approval arrives. Throws ProblemError for an unknown contract, and UnreachableError.
 */
export async function governedTool(client: Readback, options: GovernedOptions): Promise<GovernedTool> {
  const { arguments: schema } = await client.contract(options.contract);
  // Annotated, and not by `tool<...>`: the type parameters of that function differ between versions 6 and 7.
  const made: GovernedTool = {
    description: options.description,
    inputSchema: jsonSchema<Arguments>(schema as JSONSchema7),
    needsApproval: async (input, { messages }) => needsApproval(client, options, input, messages),
    execute: async (input, { messages, abortSignal }) => executed(client, options, input, messages, abortSignal),
    toModelOutput: ({ output }) =>
      output.verified === true ? { type: "text", value: output.forModel } : { type: "error-text", value: output.forModel },
  };
  return made;
}

/** Return whether a call waits for an approval, without a record. An undetermined answer means yes. */
export async function needsApproval(
  client: Readback, options: GovernedOptions, input: Arguments, messages: readonly ModelMessage[],
): Promise<boolean> {
  try {
    const operation = await operationOf(options, input, messages);
    const asked = { operation, run: options.run, ...tested(options) };
    return (await client.check(options.contract, input, asked)).needs_approval !== false;
  } catch (error) {
    return !(error instanceof ProblemError && error.status === 422); // wrong arguments: the call itself is refused
  }
}

/**
 * Record a call that needs an approval, without executing the call, so that an approver has something to sign.
 *
 * Use the operation of the later call: pass the same input and messages. Throws UsageError for a call without need of
 * an approval, and as `Readback.begin` and `Readback.run` do.
 */
export async function park(
  client: Readback, options: GovernedOptions, input: Arguments, messages: readonly ModelMessage[],
): Promise<Outcome> {
  const operation = await operationOf(options, input, messages);
  const intent = { operation, run: options.run, ...tested(options) };
  if (!(await client.check(options.contract, input, intent)).needs_approval) {
    throw new UsageError("The call needs no approval, or its approval is there.", "Call the tool.");
  }
  // The way of the later call: an action of the server's own is executed by the server alone.
  if (!options.execute) return client.run(options.contract, input, { ...intent, wait: 0 });
  const attempt = await client.begin(options.contract, input, intent);
  if (!attempt.allowed) return attempt.outcome;
  return attempt.report({ error: "The approval arrived meanwhile, and the call was not made." });
}

/** Return the name of a call's intent. */
export async function operationOf(
  options: GovernedOptions, input: Arguments, messages: readonly ModelMessage[],
): Promise<string> {
  if (options.operation) return options.operation(input, messages);
  const name = options.name ?? options.contract;
  const text = exactJson(input, true);
  const calls = new Set<string>();
  let earlier = 0;
  for (const message of messages) {
    if (typeof message.content === "string") continue;
    for (const part of message.content) {
      if (part.type === "tool-call" && part.toolName === name && sameJson(part.input, text)) calls.add(part.toolCallId);
      // Only a verified result makes the same call a new intent. A call in doubt joins the first one.
      else if (part.type === "tool-result" && calls.has(part.toolCallId) && part.output.type === "text") earlier += 1;
    }
  }
  return [await short(options.run, 96), await short(name, 64), await sha256(text), earlier].join("/");
}

async function executed(
  client: Readback, options: GovernedOptions, input: Arguments, messages: readonly ModelMessage[], signal?: AbortSignal,
): Promise<GovernedOutput> {
  const operation = await operationOf(options, input, messages);
  const wait = options.wait === undefined ? {} : { wait: options.wait };
  const intent = { operation, run: options.run, signal, ...wait, ...tested(options) };
  try {
    const { contract, execute } = options;
    const outcome = execute
      ? await client.perform(contract, input, intent, (context) => execute(input, context))
      : await client.run(contract, input, intent);
    return output(outcome, operation);
  } catch (error) {
    if (error instanceof AbortedError && error.sent) return output(Outcome.unknown(operation, error), operation);
    if (error instanceof ProblemError || (error instanceof UnreachableError && !error.sent)) return refused(error, operation);
    throw error;
  }
}

function output(outcome: Outcome, operation: string): GovernedOutput {
  return {
    status: outcome.status, verified: outcome.verified, message: outcome.message, forModel: outcome.forModel,
    action: outcome.id, operation, code: outcome.action?.code ?? "client.unreachable",
  };
}

function refused(error: ProblemError | UnreachableError, operation: string): GovernedOutput {
  const message = "The request was refused, and nothing was executed.";
  const forModel = `[readback] ${message} ${error.message} (${error.code}) Tell the user only: ${message}`;
  return { status: "refused", verified: false, message, forModel, action: "", operation, code: error.code };
}

function tested(options: GovernedOptions): { test?: boolean } {
  return options.test === undefined ? {} : { test: options.test };
}

function sameJson(input: unknown, text: string): boolean {
  try {
    return exactJson(input, true) === text;
  } catch {
    return false;
  }
}

async function short(text: string, most: number): Promise<string> {
  return text.length <= most && /^[\x21-\x2e\x30-\x7e]+$/.test(text) ? text : sha256(text);
}

async function sha256(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(digest, (each) => each.toString(16).padStart(2, "0")).join("");
}

/** The text for users where nothing about an action can be said. */
export { CANNOT_TELL };
