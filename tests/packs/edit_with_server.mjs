// The reference filesystem server's own editing, case by case: JSON lines [path, edits] in, the text or null out.
import fs from "node:fs/promises";
import readline from "node:readline";
import { pathToFileURL } from "node:url";

const { applyFileEdits } = await import(pathToFileURL(process.argv[2]));
for await (const line of readline.createInterface({ input: process.stdin })) {
  const [path, text, edits] = JSON.parse(line);
  await fs.writeFile(path, text, "utf-8");
  try {
    await applyFileEdits(path, edits, false);
    console.log(JSON.stringify(await fs.readFile(path, "utf-8")));
  } catch {
    console.log("null");
  }
}
