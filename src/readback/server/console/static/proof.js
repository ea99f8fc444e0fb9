// Recomputes an inclusion proof (RFC 6962) and the signature of the log's head, in the reader's own browser.
// Input: the element #verified with `data-proof`: the entry, its index, the size, the path, the root, and the signed head.
"use strict";
(async () => {
  const shown = document.getElementById("verified");
  if (!shown) return;
  if (!crypto.subtle) { shown.textContent = "This browser calculates hashes over HTTPS or on loopback only."; return; }
  const proof = JSON.parse(shown.dataset.proof);
  const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const sha256 = async (...parts) => {
    const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
    let place = 0;
    for (const part of parts) { whole.set(part, place); place += part.length; }
    return new Uint8Array(await crypto.subtle.digest("SHA-256", whole));
  };
  const hex = (hash) => [...hash].map((each) => each.toString(16).padStart(2, "0")).join("");
  const leaf = await sha256(Uint8Array.of(0), bytes(proof.entry));
  // Walk from the leaf to the root. At each level the path has the sibling, at the left or at the right.
  let hash = leaf, index = BigInt(proof.index), last = BigInt(proof.size) - 1n, used = 0;
  for (const each of proof.path.map(bytes)) {
    if (last === 0n) { used = -1; break; }
    if (index & 1n || index === last) {
      hash = await sha256(Uint8Array.of(1), each, hash);
      while (!(index & 1n) && index !== 0n) { index >>= 1n; last >>= 1n; }
    } else {
      hash = await sha256(Uint8Array.of(1), hash, each);
    }
    index >>= 1n; last >>= 1n; used += 1;
  }
  const included = used === proof.path.length && last === 0n && hex(hash) === proof.root;
  const say = [included ? "The path leads from the entry to the root." : "NOT PROVED: the path does not lead to the root."];
  // The root stands in the third line of the head. The note is the head's text, an empty line, and the signatures.
  const [text] = proof.note.split("\n\n"), lines = text.split("\n");
  const bound = lines[1] === String(proof.size) && hex(bytes(lines[2])) === proof.root;
  say.push(bound ? "The head binds this size and root." : "NOT PROVED: the head binds another size or root.");
  try {
    const key = await crypto.subtle.importKey("raw", bytes(proof.key), "Ed25519", false, ["verify"]);
    const message = new TextEncoder().encode(text + "\n");
    const signatures = proof.note.split("\n").filter((line) => line.startsWith("\u2014 " + proof.name + " "));
    const checks = signatures.map((line) => crypto.subtle.verify("Ed25519", key, bytes(line.split(" ")[2]).slice(4), message));
    const signed = (await Promise.all(checks)).some((each) => each);
    say.push(signed ? "The signature of the head is valid for the key above. Compare the key with a source other than this server." : "NOT PROVED: the signature of the head is not valid.");
    shown.className = included && bound && signed ? "done" : "fault";
  } catch (error) {
    say.push("This browser has no Ed25519, so the signature was not checked here: use the command above.");
    shown.className = included && bound ? "" : "fault";
  }
  shown.textContent = say.join(" ");
})();
