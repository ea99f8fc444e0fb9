/** Errors of this client. Each has a stable `code` and names the next step in `remedy`. */

import type { components } from "./api.js";

/** A problem document (RFC 9457) of the server. */
export type Problem = components["schemas"]["Problem"];

/** The base of every error of this client. */
export class ReadbackError extends Error {
  override readonly name: string = "ReadbackError";

  constructor(
    /** The stable code, such as `input.payload-conflict` or `client.unreachable`. */
    readonly code: string,
    message: string,
    /** The next step; "" without one. */
    readonly remedy = "",
    options?: ErrorOptions,
  ) {
    super(remedy ? `${message} ${remedy}` : message, options);
  }
}

/** The server refused the request with a problem document. Nothing was executed by this request. */
export class ProblemError extends ReadbackError {
  override readonly name: string = "ProblemError";
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  /** The request's id in the server's log; "" without one. */
  readonly instance: string;
  readonly faults: readonly unknown[];
  /** Seconds until a repetition is useful, by Retry-After; null without one. */
  readonly retryAfter: number | null;

  constructor(problem: Problem, retryAfter: number | null = null) {
    super(problem.code, problem.detail, problem.remedy ?? "");
    this.status = problem.status;
    this.title = problem.title;
    this.detail = problem.detail;
    this.instance = problem.instance ?? "";
    this.faults = problem.faults ?? [];
    this.retryAfter = retryAfter;
  }
}

/** The server gave no answer, or an answer outside the API's description. */
export class UnreachableError extends ReadbackError {
  override readonly name: string = "UnreachableError";

  constructor(
    message: string,
    /** Whether the request may have reached the server. False only where no connection was made. */
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    const remedy = sent
      ? "Look the action up by its operation, or send the same operation again: an operation executes once."
      : "Check the server's URL and whether the server runs. Nothing was sent.";
    super("client.unreachable", message, remedy, options);
  }
}

/** The caller's signal ended the wait. A request that was sent goes on in the server. */
export class AbortedError extends ReadbackError {
  override readonly name = "AbortError";

  constructor(
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    super(
      "client.aborted",
      sent ? "The wait was aborted. The request may have reached the server." : "The request was aborted before it was sent.",
      sent ? "Look the action up by its operation." : "",
      options,
    );
  }
}

/** The caller passed a value that the client cannot send. Nothing was sent. */
export class UsageError extends ReadbackError {
  override readonly name = "UsageError";

  constructor(message: string, remedy: string) {
    super("client.usage", message, remedy);
  }
}
