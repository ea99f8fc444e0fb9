/** The check of an agent's final text. A text that the ledger does not support is replaced. */

import type { Look, Readback } from "./client.js";
import { CANNOT_TELL } from "./outcome.js";

/** The result of a check. `text` is always safe to show: the answer itself where `ok`, else the reconciled state. */
export interface FinalText {
  ok: boolean;
  text: string;
  faults: readonly Record<string, unknown>[];
}

/**
 * Check a final text of a run. The text passes where nothing of the run is open or undone and no citation is wrong, or
 * where each item cites a verified action or stands under `## Open`, or where the text is the reconciled state itself.
 *
 * Never throws for a server out of reach: the text is replaced then, too.
 */
export async function finalText(client: Readback, run: string, text: string, options: Look = {}): Promise<FinalText> {
  try {
    const belief = await client.belief(run, options);
    const clear =
      belief.unresolved.length === 0 &&
      belief.not_done.length === 0 &&
      belief.groups.every((each) => each["rule"] === "continue");
    const checked = await client.checkReport(run, text, { ...options, every: !clear });
    if (checked.passed === true || spaced(text) === spaced(belief.message)) return { ok: true, text, faults: [] };
    return { ok: false, text: belief.message, faults: checked.faults };
  } catch {
    return { ok: false, text: CANNOT_TELL, faults: [] };
  }
}

function spaced(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
