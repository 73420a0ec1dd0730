// The pages of sources: accepting, refreshing, setting effects, removing, and adding one by form. `console.js` loads it there.
//
// Promises: what is accepted is the offer that is on the screen, named by its digest, and not before it was there for a moment;
// an offer that changed under a reader's hands is announced and not put in their place; what is added is what was previewed.

export default ({ $, $$, call, explained, fetchPage, gather, keyed, on, refresh, say, settleMs, toMarkup }) => {
  // How often a page whose source is not ready looks again: health is no event.
  const lookAgainMs = 5000;
  // How long a filter waits for the next letter.
  const typedMs = 250;

  let shownAt = performance.now();
  const isNew = () => performance.now() - shownAt < settleMs;

  // What went wrong, what to do about it, and its code.
  const words = (error) => {
    const code = error.problem?.code;
    const advice = code && $(`#advice [data-code="${CSS.escape(code)}"]`)?.textContent;
    return [explained(error), advice, code && `(${code})`].filter(Boolean).join(" ");
  };

  const tell = (text, ...more) => {
    const place = $("#told");
    if (!place) return say(text);
    const told = document.createElement("p");
    told.className = "warning";
    told.append(text, ...more);
    place.replaceChildren(told);
    place.scrollIntoView({ block: "nearest" });
  };

  const digest = (within = document) => $("#source", within)?.dataset.digest;

  // The page anew; what was selected stays selected while it stands for the same offer.
  const redraw = async () => {
    const before = digest();
    const chosen = new Set($$("#offered [name=paths]:checked").map(({ value }) => value));
    await refresh();
    if (digest() !== before) shownAt = performance.now();
    else for (const box of $$("#offered [name=paths]")) box.checked = chosen.has(box.value);
  };

  // ---- What a source's page does

  const sendings = {
    accept: async (form) => {
      if (isNew()) return say("This only just appeared. Read it, then accept it.");
      const body = gather(form);
      if (form.dataset.needs && !body[form.dataset.needs]?.length) return tell("Select the tools to accept first.");
      if (!agrees(form)) return;
      try {
        const { callable } = await send(form, body);
        await redraw();
        say(callable === 1 ? "Accepted. 1 tool can be called." : `Accepted. ${callable} tools can be called.`);
      } catch (error) {
        await redraw();
        tell(words(error));
      }
    },
    refresh: async (form) => {
      try {
        await send(form);
        await redraw();
        say("The source was read again.");
      } catch (error) {
        await redraw();
        tell(words(error));
      }
    },
    effect: async (form) => {
      if (!agrees(form)) return;
      try {
        await send(form, gather(form));
        await redraw();
        say("The effect is changed.");
      } catch (error) { $(".violation", form).textContent = words(error); }
    },
    remove: async (form) => {
      if (!agrees(form)) return;
      try {
        await send(form);
        location.assign("/sources");
      } catch (error) { tell(words(error)); }
    },
    preview: (form) => preview(form),
  };

  const agrees = (form) => !form.dataset.sure || confirm(form.dataset.sure);

  const send = async (form, body) => {
    const [method, path] = form.dataset.api.split(" ");
    const buttons = $$("button", form);
    for (const button of buttons) button.disabled = true;
    try { return await call(method, path, body); } finally { for (const button of buttons) button.disabled = false; }
  };

  // ---- Being told

  const isTyping = () => document.activeElement?.matches("main :is(input:not([type=checkbox]), select)");

  let looking = false;
  const look = async () => {
    const source = $("#source");
    if (!source || looking) return;
    if (isTyping()) return void setTimeout(look, 1000);
    looking = true;
    try {
      const fresh = await fetchPage(location.href);
      if (digest(fresh) === digest() || source.dataset.health === "loading") return await redraw();
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.redraw = "";
      button.textContent = "Show what it offers now";
      tell("This source offers something else by now than this page shows. ", button);
    } catch { /* a server that does not answer is asked again; a source that is gone says so when it is used */ } finally {
      looking = false;
    }
  };
  on("catalog.changed", () => setTimeout(look, 200));
  setInterval(() => {
    if (document.hidden) return;
    if ($("#source")) { if ($("#source").dataset.health !== "ready") look(); } else if ($("table.sources")) refresh();
  }, lookAgainMs);

  // ---- The filter

  let typed;
  const filter = async (form) => {
    const address = `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`;
    const fresh = await fetchPage(address).catch(() => null);
    if (!fresh) return say("The server does not answer.");
    if (digest(fresh) !== digest()) return look();
    history.replaceState(null, "", address);
    for (const part of ["#offered", "nav.filters[aria-label='By standing']", "section.accept"]) {
      const [old, now] = [$(part), $(part, fresh)];
      if (old && now) old.replaceWith(document.adoptNode(now));
    }
  };

  // ---- Adding one

  const add = $("#add-source");
  let previewed;

  const splitWords = (text) => {
    if (/["']/.test(text.replace(/"[^"]*"|'[^']*'/g, ""))) throw new Error("A quotation mark is not closed.");
    const found = text.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
    return found.map((word) => word.replace(/"([^"]*)"|'([^']*)'/g, "$1$2"));
  };

  const splitPairs = (text) => Object.fromEntries(splitWords(text).map((word) => {
    const at = word.indexOf("=");
    if (at < 1) throw new Error(`Write ${word} as name=value.`);
    return [word.slice(0, at), word.slice(at + 1)];
  }));

  const credentials = () => $$(".credential", add).map((row) => {
    const value = (name) => { const field = $(`[name=${name}]`, row); return field.disabled ? undefined : field.value.trim() || undefined; };
    return { as: value("as"), name: value("name"), user: value("user"), [value("from")]: value("place") };
  });

  // The configuration that the form describes; fields of other kinds are left out.
  const configured = () => {
    const kind = add.elements.kind.value;
    const all = { kind: kind === "command" ? "mcp" : kind };
    for (const field of add.elements) {
      const { type } = field.dataset;
      if (!type || field.disabled) continue;
      const text = field.value.trim();
      if (type === "boolean" ? !field.checked : !text) continue;
      const value = type === "boolean" ? true : type === "words" ? splitWords(text) : type === "pairs" ? splitPairs(text) : text;
      const [outer, inner] = field.name.split(".");
      if (inner) (all[outer] ??= {})[inner] = value;
      else all[outer] = value;
    }
    const given = credentials();
    return given.length ? { ...all, credentials: given } : all;
  };

  const switchTo = (element, shown) => {
    element.hidden = !shown;
    for (const field of element.matches("option") ? [element] : $$("input, select", element)) field.disabled = !shown;
  };

  // Shows the fields of the chosen kind.
  const choose = () => {
    const kind = add.elements.kind.value;
    for (const part of $$("[data-kinds]", add)) switchTo(part, part.dataset.kinds.split(" ").includes(kind));
    for (const row of $$(".credential", add)) {
      const select = $("[name=as]", row);
      if (select.selectedOptions[0]?.disabled) select.value = $("option:not(:disabled)", select).value;
      for (const part of $$("[data-places]", row)) switchTo(part, part.dataset.places.split(" ").includes(select.value));
    }
  };

  const forget = () => { previewed = undefined; $("#preview").replaceChildren(); };

  const preview = async (form) => {
    const place = $(".violation", form);
    place.textContent = "";
    let config;
    try { config = configured(); } catch (error) { return void (place.textContent = error.message); }
    const button = $(".actions button", form);
    button.disabled = true;
    forget();
    $("#preview").textContent = "Reading what it offers…";
    try {
      const headers = keyed({ accept: "text/html", "content-type": "application/json" });
      const answer = await fetch("/add-source/preview", { method: "POST", headers, body: JSON.stringify(config) });
      if (answer.status === 401) return location.reload();
      const page = new DOMParser().parseFromString(toMarkup.createHTML(await answer.text()), "text/html");
      const fresh = $("#preview", page);
      if (!fresh) throw new Error(`The server answered ${answer.status}.`);
      $("#preview").replaceWith(document.adoptNode(fresh));
      if (fresh.dataset.digest) previewed = { config, digest: fresh.dataset.digest };
      shownAt = performance.now();
      fresh.scrollIntoView({ block: "nearest" });
    } catch (error) {
      forget();
      place.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  };

  const addPreviewed = async (button) => {
    if (!previewed) return;
    if (isNew()) return say("This only just appeared. Read it, then add it.");
    const { config, digest } = previewed;
    const address = `/api/sources/${encodeURIComponent(config.name)}`;
    for (const other of $$("#preview button")) other.disabled = true;
    try {
      await call("POST", "/api/sources", config);
    } catch (error) {
      for (const other of $$("#preview button")) other.disabled = false;
      return void ($("#preview .violation").textContent = words(error));
    }
    if (button.dataset.add === "accept")
      await call("POST", `${address}/accept`, { digest }).catch((error) => sessionStorage.setItem("told", `The source was added. ${words(error)}`));
    location.assign(address.slice("/api".length));
  };

  // ---- Forms and clicks

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.source) {
      event.preventDefault();
      event.stopPropagation();
      sendings[form.dataset.source](form);
    } else if (form.matches("[data-filter]")) {
      event.preventDefault();
      filter(form);
    }
  }, true);

  document.addEventListener("input", ({ target }) => {
    if (target.closest("#add-source")) {
      forget();
      choose();
    } else if (target.closest("[data-filter]")) {
      clearTimeout(typed);
      typed = setTimeout(() => filter(target.form), typedMs);
    }
  });

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    if (button.matches("[data-redraw]")) redraw();
    else if (button.matches("[data-add]")) addPreviewed(button);
    else if (button.matches("[data-add-credential]")) {
      $("#credentials").append($("#credential").content.cloneNode(true));
      forget();
      choose();
      $("#credentials .credential:last-child select").focus();
    } else if (button.matches("[data-drop-credential]")) {
      button.closest(".credential").remove();
      forget();
      $("[data-add-credential]").focus();
    }
  });

  if (add) choose();
  const told = sessionStorage.getItem("told");
  if (told && $("#told")) {
    sessionStorage.removeItem("told");
    tell(told);
  }
};
