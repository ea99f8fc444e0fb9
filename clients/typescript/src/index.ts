/** Run agents' actions through a Readback server, and report only what was read back. */

export {
  Attempt, Readback,
  type ActionSummary, type Approval, type Belief, type CallContext, type Contract, type ContractCheck, type ContractSummary,
  type Ending, type Intent, type Look, type ReportCheck, type RunIntent, type Waiting,
} from "./client.js";
export { AbortedError, ProblemError, ReadbackError, UnreachableError, UsageError, type Problem } from "./errors.js";
export { finalText, type FinalText } from "./final.js";
export type { ClientOptions } from "./http.js";
export type { Arguments, Json } from "./json.js";
export { CANNOT_TELL, Outcome, type Action, type Status } from "./outcome.js";
export type { components, operations, paths } from "./api.js";
