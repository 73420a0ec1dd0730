// The audit page: verifies the chain, and exports every record. `console.js` loads it where the page is open.

export default ({ $, call, explained }) => {
  const verify = async () => {
    const place = $("#chain");
    place.textContent = "Reading the whole chain…";
    try {
      const found = await call("GET", "/api/audit/verify");
      place.textContent = found.ok ? `The chain is whole: ${found.records} records.` : `The chain is broken at record ${found.brokenAt}.`;
    } catch (error) { place.textContent = explained(error); }
  };

  const exportAll = async () => {
    try { await exportEach(); } catch (error) { $("#chain").textContent = explained(error); }
  };

  const exportEach = async () => {
    const lines = [];
    let cursor = "";
    do {
      const part = await call("GET", `/api/audit?limit=1000&cursor=${encodeURIComponent(cursor || "0")}`);
      for (const item of part.items) lines.push(`${JSON.stringify(item)}\n`);
      cursor = part.nextCursor;
      $("#chain").textContent = `${lines.length} records read…`;
    } while (cursor);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
    link.download = "countersign-audit.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    $("#chain").textContent = `${lines.length} records exported.`;
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-verify]")) verify();
    else if (event.target.closest("[data-export]")) exportAll();
  });
};
