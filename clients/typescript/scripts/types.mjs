// Writes src/api.ts, the types of the server's API, from the checked-in description.
// With `--check` nothing is written: the script ends with 1 where src/api.ts differs.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";

const DESCRIPTION = new URL("../../../docs/reference/openapi.json", import.meta.url);
const TYPES = new URL("../src/api.ts", import.meta.url);
const HEAD = "// Made by `npm run types` from docs/reference/openapi.json. Do not edit.\n\n";

const made = HEAD + astToString(await openapiTS(DESCRIPTION, { alphabetize: true }));
if (process.argv.includes("--check")) {
  if ((await readFile(TYPES, "utf8")) !== made) {
    console.error(`${fileURLToPath(TYPES)} differs from the description. Run: npm run types`);
    process.exit(1);
  }
} else {
  await writeFile(TYPES, made);
}
