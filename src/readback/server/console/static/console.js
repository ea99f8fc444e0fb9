// Conveniences of the console. Every page works without this script.
"use strict";
(() => {
  const copies = (root) => {
    if (!navigator.clipboard) return;
    for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
  };
  const stale = () => {
    const shown = document.getElementById("version");
    const decided = document.querySelector('form.decide input[name="version"]');
    const hint = document.getElementById("stale");
    if (shown && decided && hint) hint.hidden = shown.dataset.version === decided.value;
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    navigator.clipboard.writeText(button.dataset.copy).then(() => { button.firstChild.data = "Copied"; });
  });
  let at = null;
  const move = (step) => {
    const rows = [...document.querySelectorAll("tbody tr")].filter((row) => row.querySelector("a.row"));
    if (!rows.length) return;
    const before = rows.findIndex((row) => row.querySelector("a.row").getAttribute("href") === at);
    const next = rows[Math.min(Math.max(before + step, 0), rows.length - 1)];
    for (const row of rows) row.classList.toggle("at", row === next);
    const link = next.querySelector("a.row");
    at = link.getAttribute("href");
    link.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "g") location.assign("/");
    else if (event.key === "/") { const find = document.getElementById("find"); if (find) { event.preventDefault(); find.focus(); } }
  });
  // Fresh facts replace old ones in place. An opened detail stays open, because its state is the reader's.
  let opened = [];
  const summary = (detail) => detail.querySelector("summary")?.textContent;
  document.addEventListener("htmx:before:swap", () => {
    opened = [...document.querySelectorAll("#fresh details[open]")].map(summary);
  });
  document.addEventListener("htmx:after:swap", () => {
    for (const detail of document.querySelectorAll("#fresh details")) if (opened.includes(summary(detail))) detail.open = true;
    copies(document);
    stale();
  });
  copies(document);
  stale();
})();
