/** JSON text with exact numbers: a value that JSON would change is refused. */

import { UsageError } from "./errors.js";

/** A value for a request. A `bigint` becomes a JSON integer of any size. */
export type Json = null | boolean | number | bigint | string | readonly Json[] | { readonly [name: string]: Json | undefined };

/** The arguments of an action. */
export type Arguments = { readonly [name: string]: Json | undefined };

const DEPTH_MAX = 64;

/** Return a value as JSON text. `sorted` orders the names of objects, so that equal values have equal text. */
export function exactJson(value: unknown, sorted = false, place = "value", depth = 0): string {
  if (depth > DEPTH_MAX) throw new UsageError(`${place} is nested deeper than ${DEPTH_MAX} levels.`, "Send a flatter value.");
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new UsageError(`${place} is ${value}, and JSON has no such number.`, "Send a finite number.");
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      throw new UsageError(`${place} is an integer beyond 2^53, so digits are lost.`, "Send a bigint or a string.");
    }
    return JSON.stringify(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map((each, at) => exactJson(each, sorted, `${place}[${at}]`, depth + 1)).join(",")}]`;
  }
  if (typeof value === "object" && (Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null)) {
    const entries = Object.entries(value).filter(([, each]) => each !== undefined);
    if (sorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([name, each]) => `${JSON.stringify(name)}:${exactJson(each, sorted, `${place}.${name}`, depth + 1)}`).join(",")}}`;
  }
  throw new UsageError(`${place} has no JSON form (${typeof value}).`, "Send plain objects, arrays, text, numbers and booleans.");
}

/** Return what a tool answered as JSON text. An answer without an exact JSON form is reported as text. */
export function evidenceJson(value: unknown): string {
  if (value === undefined) return "null";
  try {
    return exactJson(value);
  } catch {
    let text: string;
    try {
      text = JSON.stringify(value) ?? String(value);
    } catch {
      text = "a value without a JSON form";
    }
    return JSON.stringify(text);
  }
}
