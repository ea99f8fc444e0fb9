/** A host that dies by SIGKILL after its call and before its report. */

import { writeFileSync } from "node:fs";
import { Readback } from "readback-client";

const [url = "", token = "", folder = ""] = process.argv.slice(2);
const client = new Readback({ url, token });
const attempt = await client.begin("ship", { order_id: "n-8", carrier: "dhl" }, { operation: "n-8" });
if (!attempt.allowed) throw new Error("the attempt was not allowed");
writeFileSync(`${folder}/n-8.json`, JSON.stringify({ id: "n-8", tenant: "acme", carrier: "dhl", stamp: attempt.stamp }));
process.kill(process.pid, "SIGKILL");
