/** What became of an action, by the ledger. An undetermined state is never a success and never a failure. */

import type { components } from "./api.js";

/** An action as the server shows it. `observation` is the tool's answer: evidence, and no fact. */
export type Action = components["schemas"]["ActionView"];

/**
 * - `verified`: the effect was read back, and stands.
 * - `not_verified`: the action ended without a verified success, or its effect is unknown. See `inDoubt`.
 * - `pending`: the action is in progress.
 * - `parked`: an approval is missing, and nothing was executed.
 * - `refused`: nothing was executed, and nothing waits.
 */
export type Status = "verified" | "not_verified" | "pending" | "parked" | "refused";

/** The text for users where the ledger cannot be read. */
export const CANNOT_TELL = "The final state is unknown and requires review.";

const UNREAD =
  "[readback] The server of the ledger gave no answer, so the effect of this call is unknown. It is neither done nor " +
  "failed. Do not call again. Tell the user only: " + CANNOT_TELL;

/** The outcome of an action. */
export class Outcome {
  private constructor(
    /** The server's view; null where the server could not be read. */
    readonly action: Action | null,
    /** The name of the intent. */
    readonly operation: string,
    /** Why the server could not be read; null for a server's view. */
    readonly cause: Error | null,
    private readonly known: string,
  ) {}

  /** Return the outcome of a server's view. */
  static of(action: Action): Outcome {
    return new Outcome(action, action.operation, null, action.id);
  }

  /** Return the outcome of a request whose end the client does not know. `id`: the action's id, where known. */
  static unknown(operation: string, cause: Error, id = ""): Outcome {
    return new Outcome(null, operation, cause, id);
  }

  /** The action's id; "" where the client does not know the id. */
  get id(): string {
    return this.known;
  }

  /** Whether the effect was read back from the system of record, and stands. Nothing else is a success. */
  get verified(): boolean {
    return this.action !== null && this.action.verified === true && this.action.standing === true;
  }

  /** Whether the same intent under another operation could act twice. */
  get inDoubt(): boolean {
    return this.action === null || this.action.in_doubt !== false;
  }

  /** Whether no progress is near: the action has ended, or its state stays unknown. */
  get settled(): boolean {
    return this.action !== null && this.action.settled === true;
  }

  get status(): Status {
    const action = this.action;
    if (action === null) return "not_verified";
    if (this.verified) return "verified";
    if (action.hold === "approval" && action.attempts === 0) return "parked";
    if (!action.settled) return "pending";
    return action.attempts === 0 && action.in_doubt === false ? "refused" : "not_verified";
  }

  /** The state of the ledger; `unknown` where the server could not be read. */
  get state(): string {
    return this.action?.state ?? "unknown";
  }

  /** The only text about the action for users. */
  get message(): string {
    return this.action?.message ?? CANNOT_TELL;
  }

  /** The only text about the action for a model's next context. */
  get forModel(): string {
    return this.action?.for_model ?? UNREAD;
  }
}
