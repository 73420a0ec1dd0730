// Keeps the console's pages live, hears keys, and sends decisions to REST.
//
// Promises: markup comes only from our own server's pages, never out of data; what is decided is the request that is on the
// screen, and one that only just got there is decided by neither a key nor a click that was meant for the one before. Only
// whoever decided here is taken on to the next request; what others decide moves nothing under anybody's hands.

const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// How long a request must have been on the screen before it is approved: longer than a hand takes to stop.
const settleMs = 600;
// How long a decided card stays, to say by whom.
const stayMs = 4000;
// How long ids of new requests are gathered before their cards are asked for.
const gatherMs = 20;
// How long after a server that does not answer is asked again.
const againMs = 1000;

const store = {
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); } catch { /* private windows may refuse */ } },
  remove: (key) => { try { localStorage.removeItem(key); } catch { /* the same */ } },
};

// ---- REST and pages

// The cookie alone opens nothing: the key that the login page handed over goes with every request. It is kept for this
// origin only, so that servers on other ports of this host never see it. A page keeps the key it began with: where somebody
// else logs in to this browser meanwhile, what an old page shows is not decided in their name.
const key = store.get("csrf") ?? "";
const keyed = (headers) => ({ ...headers, "x-csrf-token": key });

const toMarkup = globalThis.trustedTypes
  ? trustedTypes.createPolicy("countersign", { createHTML: (text) => text })
  : { createHTML: (text) => text };

// Whether this page's login is over. The address, opened anew, then shows how to log in, or what the new login may see.
const hasEnded = ({ status }) => status === 401 || status === 403;

// A page of ours, parsed; its scripts do not run.
const fetchPage = async (path) => {
  const answer = await fetch(path, { headers: keyed({ accept: "text/html" }) });
  if (hasEnded(answer)) location.reload();
  // What is on the screen is better than a page that says that there is none.
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  return new DOMParser().parseFromString(toMarkup.createHTML(await answer.text()), "text/html");
};

// A browser opens a page with its cookie alone, and gets an empty one; what is to be on it is fetched with the key.
const fill = async () => {
  const answer = await fetch(location.href, { headers: keyed({ accept: "text/html" }) });
  if (answer.status === 403 && !answer.headers.get("content-type")?.startsWith("text/html")) return location.replace("/login");
  const whole = new DOMParser().parseFromString(toMarkup.createHTML(await answer.text()), "text/html");
  // Without its key this browser is logged in only by half.
  if ($("[data-code=csrf]", whole)) return location.replace("/login");
  document.title = whole.title;
  document.body.replaceWith(document.adoptNode(whole.body));
};
// Who follows a link from another site comes without a cookie, and so to the login page; asked from here, it is sent.
if (document.body.dataset.page === "empty" || (document.body.dataset.page === "turned-away" && key)) {
  try { await fill(); } catch { setTimeout(() => location.reload(), 1000); }
}
const page = document.body.dataset.page;

let saying;
const say = (text) => {
  const said = $("#said");
  if (!said) return;
  said.textContent = text;
  clearTimeout(saying);
  saying = setTimeout(() => (said.textContent = ""), 6000);
};

const call = async (method, path, body) => {
  const headers = keyed({ "content-type": "application/json" });
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  const value = text ? JSON.parse(text) : null;
  if (answer.status === 401 || value?.code === "csrf") location.reload();
  if (!answer.ok) throw Object.assign(new Error(value?.detail ?? `the server answered ${answer.status}`), { problem: value });
  return value;
};

const explained = (error) => (error.problem?.code === "csrf" ? "This page's login has ended." : error.message);

// ---- Forms: what their fields say, as JSON

const read = (field) => {
  const { type = "string" } = field.dataset;
  if (type === "boolean") return field.checked;
  if (field.value.trim() === "" && type !== "string") return undefined;
  if (type === "number") return Number(field.value);
  if (type === "json" || type === "choice") return JSON.parse(field.value);
  return field.value === "" && !field.required ? undefined : field.value;
};

const gather = (form) => {
  // Without a prototype: a schema names its fields as it likes.
  const all = Object.create(null);
  for (const field of form.elements) {
    if (!field.name || !field.dataset.type) continue;
    const [, outer, last] = field.name.match(/^(?:([^.]+)\.)?([^]*)$/);
    const at = outer ? (all[outer] ??= Object.create(null)) : all;
    if (field.dataset.type === "choices") {
      at[last] ??= [];
      if (field.checked) at[last].push(JSON.parse(field.value));
    } else {
      let value;
      try { value = read(field); } catch { throw Object.assign(new Error(`${last} is not JSON`), { field: field.name }); }
      if (value !== undefined) at[last] = value;
    }
  }
  return all;
};

const complain = (form, error) => {
  for (const place of $$(".violation", form)) place.textContent = "";
  const general = $("#why-not", form) ?? $$(".violation", form).findLast((place) => !place.closest(".field"));
  let told = false;
  for (const violation of error.problem?.violations ?? []) {
    // "/visits: 9 is greater than the maximum of 5": where, and what.
    const [, name, problem] = violation.match(/^\/([^/:]+)[^:]*: ([^]*)$/) ?? [];
    const place = name && $(`[data-field$=".${CSS.escape(name)}"] .violation`, form);
    if (place) { place.textContent = problem; told = true; }
  }
  const place = error.field && $(`[data-field="${CSS.escape(error.field)}"] .violation`, form);
  if (place) { place.textContent = error.message; told = true; }
  if (general) general.textContent = told ? "Some answers do not fit." : explained(error);
  else say(explained(error));
};

const submit = async (form) => {
  if (form.dataset.sure && !confirm(form.dataset.sure)) return;
  const [method, path] = form.dataset.api.split(" ");
  const button = $("button", form);
  button.disabled = true;
  try {
    const value = await call(method, path, method === "DELETE" ? undefined : gather(form));
    if (form.dataset.then === "execution") return location.assign(`/executions/${value.executionId}`);
    await refresh();
    if (form.dataset.then === "secret") {
      form.reset();
      const place = $("#secret");
      $("pre", place).textContent = value.secret;
      place.hidden = false;
    } else if (form.dataset.then === "link") {
      $("#secret pre").textContent = value.url;
      $("#secret").hidden = false;
    } else say("Done.");
  } catch (error) {
    if (error.problem?.executionId && form.dataset.then === "execution") return location.assign(`/executions/${error.problem.executionId}`);
    complain(form, error);
  } finally {
    button.disabled = false;
  }
};

// The page's tables and articles anew, without losing what is typed elsewhere.
const refresh = async () => {
  const fresh = await fetchPage(location.href).catch(() => null);
  if (!fresh) return refreshSoon(againMs);
  const [old, now] = [$("main"), $("main", fresh)];
  if (!old || !now) return;
  const secret = $("#secret", old);
  old.replaceChildren(...now.childNodes);
  if (secret && $("#secret")) $("#secret").replaceWith(secret);
  tick();
};

// ---- Time

const spell = (ms) => {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
};

const tick = () => {
  const now = Date.now();
  for (const time of $$("time[data-age]")) time.textContent = `${spell(now - Date.parse(time.dateTime))} ago`;
  for (const time of $$("time[data-left]")) {
    const left = Date.parse(time.dateTime) - now;
    time.textContent = left > 0 ? spell(left) : "no time";
    time.classList.toggle("soon", left < 60_000);
  }
};

// ---- The request that is open

const pane = $("#pane");
const isWide = () => pane && getComputedStyle(pane).display !== "none";
const request = () => $("#request");
let shownAt = 0;

const watchEnd = () => {
  shownAt = performance.now();
  const [article, end] = [request(), $("#end-of-request")];
  if (!article?.hasAttribute("data-long") || !end) return;
  const seen = new IntersectionObserver((entries) => {
    // All of it was on the screen only if none of it is folded away.
    if (!entries.some((entry) => entry.isIntersecting) || $(".tree details:not([open])", article)) return;
    seen.disconnect();
    article.removeAttribute("data-long");
    for (const button of $$("#decide button", article)) button.disabled = false;
  });
  // Only what comes after the arguments was scrolled to is the end.
  seen.observe(end);
};

// What was decided on this very page.
const ours = new Set();

const decide = async (answer) => {
  const [article, form] = [request(), $("#decide")];
  if (!article || !form) return;
  if (answer !== "deny" && performance.now() - shownAt < settleMs) return say("This request only just opened. Read it, then decide.");
  if (answer !== "deny" && article.hasAttribute("data-long")) return say("Read the arguments to their end first.");
  const { id, execution, kind, digest } = article.dataset;
  const body = { executionId: execution, digest, approved: answer !== "deny" };
  const reason = form.elements.reason.value.trim();
  if (reason) body.comment = reason;
  try {
    if (answer !== "deny") {
      // A key asks no browser whether the fields are filled in well.
      if ((kind === "form" || answer === "session") && !form.reportValidity()) return;
      if (kind === "form") {
        body.data = gather(form).data ?? {};
      } else {
        body.remember = answer;
        const { scope, uses } = form.elements;
        if (answer === "session" && scope?.value === "same") body.rememberArgs = "same";
        if (answer === "session" && uses?.value) body.rememberUses = Number(uses.value);
      }
    }
    for (const button of $$("button", form)) button.disabled = true;
    ours.add(id);
    await call("POST", `/api/elicitation/${id}/resolve`, body);
    say(answer === "deny" ? "Denied." : "Approved.");
    if (page === "inbox" && !$("#cards")) location.assign("/");
  } catch (error) {
    ours.delete(id);
    for (const button of $$("button", form)) button.disabled = false;
    complain(form, error);
    const made = error.problem?.decision;
    if (made) leave(id, made);
  }
};

// ---- The inbox

const cards = $("#cards");
const card = (id) => $(`.card[data-id="${CSS.escape(id)}"]`);
const chosen = () => $(".card[aria-current]");
let opening = 0;

const choose = async (item, { open = true } = {}) => {
  if (!item) return;
  for (const other of $$(".card[aria-current]")) other.removeAttribute("aria-current");
  item.setAttribute("aria-current", "true");
  item.scrollIntoView({ block: "nearest" });
  $("a", item).focus({ preventScroll: true });
  if (!open || !isWide()) return;
  const turn = ++opening;
  pane.setAttribute("aria-busy", "true");
  // What is still shown is not what is chosen any more.
  pane.inert = true;
  const fresh = await fetchPage(`/elicitations/${item.dataset.id}`).catch(() => null);
  // The reader may have gone on meanwhile.
  if (turn !== opening) return;
  pane.removeAttribute("aria-busy");
  const article = fresh && $("#request", fresh);
  pane.replaceChildren(...(article ? [article] : []));
  pane.inert = false;
  if (!fresh) return say("The server does not answer. Choose the request again.");
  pane.scrollTop = 0;
  watchEnd();
  tick();
};

const step = async (by) => {
  const all = $$(".card:not(.leaving)");
  const at = all.indexOf(chosen());
  const to = all[Math.min(all.length - 1, Math.max(0, at + by))];
  if (to !== chosen()) await choose(to);
  if (at + by >= all.length - 3) await loadMore();
};

let loading = false;
const loadMore = async () => {
  const next = cards?.dataset.next;
  if (!next || loading) return;
  loading = true;
  try {
    const more = $("ol", await fetchPage(`/inbox/cards?cursor=${encodeURIComponent(next)}`));
    if (!more) return;
    add(more);
    if (more.dataset.next) cards.dataset.next = more.dataset.next;
    else {
      delete cards.dataset.next;
      // What came while the last part was on its way may be in neither.
      for (const id of later) arrive(id);
      later.clear();
    }
  } catch { /* they are asked for again when they are reached again */ } finally {
    loading = false;
  }
};

const showEmpty = () => {
  $("#empty").hidden = cards.children.length > 0 || !$("#doubts").hidden;
};

const add = (list) => {
  for (const item of $$(".card", list)) if (!card(item.dataset.id)) cards.append(item);
  showEmpty();
  tick();
};

const wanted = new Set();
const later = new Set();
let gathering;
const arrive = (id) => {
  if (card(id)) return;
  // What is further down the list than what is loaded comes with the rest of it.
  if (cards.dataset.next) return later.add(id);
  wanted.add(id);
  gathering ??= setTimeout(fetchWanted, gatherMs);
};

const fetchWanted = async () => {
  const ids = [...wanted].slice(0, 50);
  const page = await fetchPage(`/inbox/cards?ids=${ids.join(",")}`).catch(() => null);
  const list = page && $("ol", page);
  if (list) {
    add(list);
    for (const id of ids) wanted.delete(id);
  }
  // The stream tells of each only once: what could not be fetched is asked for until it is.
  gathering = wanted.size ? setTimeout(fetchWanted, list ? gatherMs : againMs) : undefined;
};

// A request that was decided, here or elsewhere: its card says by whom, and leaves.
const leave = (id, decision) => {
  later.delete(id);
  const mine = ours.delete(id);
  const words = decision.reason
    ? `Withdrawn: ${decision.reason}. The call did not run.`
    : `${decision.outcome} by ${decision.byName ?? decision.by} through ${decision.channel}`;
  const article = request();
  if (article?.dataset.id === id && article.dataset.status === "pending") {
    article.dataset.status = decision.outcome;
    const told = document.createElement("p");
    told.className = "decided";
    told.textContent = words;
    $("#decide", article)?.replaceWith(told);
  }
  const item = card(id);
  if (!item || item.classList.contains("leaving")) return;
  item.classList.add("leaving");
  const verdict = $(".verdict", item);
  verdict.textContent = words;
  verdict.hidden = false;
  const stays = (way) => { let to = item[way]; while (to?.classList.contains("leaving")) to = to[way]; return to; };
  const next = stays("nextElementSibling") ?? stays("previousElementSibling");
  setTimeout(async () => {
    const hadFocus = item.contains(document.activeElement);
    item.remove();
    showEmpty();
    if (cards.children.length < 10) await loadMore();
    if (!cards.children.length) pane.replaceChildren();
    // A reader who had it in the list stays in the list; what is open stays open until they choose.
    else if (hadFocus && next?.isConnected) await choose(next, { open: false });
  }, stayMs);
  // Whoever decided here goes on.
  if (mine && next && isWide() && item === chosen()) setTimeout(() => item === chosen() && choose(next), 700);
};

const count = (by) => {
  const place = $("[data-count]");
  if (!place) return;
  const now = Math.max(0, Number(place.textContent) + by);
  place.textContent = now;
  place.hidden = now === 0;
  document.title = document.title.replace(/^\(\d+\) /, "").replace(/^/, now ? `(${now}) ` : "");
};

// What is in doubt stands on top of the inbox and in its count, on every page.
let askingDoubts;
const doubtsSoon = (ms = 200) => {
  askingDoubts ??= setTimeout(async () => {
    askingDoubts = undefined;
    const fresh = await fetchPage("/").catch(() => null);
    const [place, now] = [$("[data-count]"), fresh && $("[data-count]", fresh)];
    if (!now) return doubtsSoon(againMs);
    count(Number(now.dataset.doubts) - Number(place.dataset.doubts));
    place.dataset.doubts = now.dataset.doubts;
    if (!cards) return;
    $("#doubts").replaceWith($("#doubts", fresh));
    showEmpty();
    tick();
  }, ms);
};

// ---- Being told

// One tone, and at most one announcement a second: a page that comes back after a night hears of many at once.
let context;
let announcedAt = -Infinity;
const announce = (question) => {
  if (performance.now() - announcedAt < 1000) return;
  announcedAt = performance.now();
  if (store.get("notify") === "yes" && globalThis.Notification?.permission === "granted" && document.hidden) {
    const note = new Notification(`${question.toolPath} needs your approval`, { body: `Requested by ${question.requesterName ?? question.requester}`, tag: question.elicitationId });
    note.onclick = () => { focus(); location.assign(`/elicitations/${question.elicitationId}`); };
  }
  if (store.get("sound") === "yes") {
    context ??= new AudioContext();
    const [tone, volume] = [context.createOscillator(), context.createGain()];
    volume.gain.setValueAtTime(0.08, context.currentTime);
    volume.gain.exponentialRampToValueAtTime(0.001, context.currentTime + 0.35);
    tone.frequency.value = 660;
    tone.connect(volume).connect(context.destination);
    tone.start();
    tone.stop(context.currentTime + 0.35);
  }
};

const wishes = () => {
  for (const [name, button] of [["notify", $("[data-notify]")], ["sound", $("[data-sound]")]])
    button?.setAttribute("aria-pressed", String(store.get(name) === "yes"));
};

const wish = async (name) => {
  const isOn = store.get(name) === "yes";
  if (!isOn && name === "notify" && (await Notification.requestPermission()) !== "granted")
    return say("This browser does not allow notifications for this page.");
  store.set(name, isOn ? "no" : "yes");
  wishes();
};

// ---- Events

let refreshing;
// What is being typed is not taken away; the page catches up when its reader has left the field.
const isTyping = () => $("main :is(input, textarea, select):focus") !== null;
const refreshSoon = (ms = 100) => {
  // Not put off by what comes meanwhile: a busy list would never be drawn.
  refreshing ??= setTimeout(() => {
    refreshing = undefined;
    if (isTyping()) refreshSoon(1000); else refresh();
  }, ms);
};

// A stream of events, read until it ends; EventSource cannot send the key. Gives the id of the last event.
const follow = async (after, signal, tell) => {
  const answer = await fetch(`/api/events?brief=true&after=${after}`, { headers: keyed({ accept: "text/event-stream" }), signal });
  if (hasEnded(answer)) return location.reload();
  if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
  $("#offline").hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = block.split("\n").map((line) => line.match(/^(\w+): ?(.*)$/)).filter(Boolean);
      const field = (name) => fields.filter(([, key]) => key === name).map(([, , value]) => value).join("\n");
      if (field("id")) after = field("id");
      if (field("data")) tell(field("event"), JSON.parse(field("data")));
    }
    document.body.dataset.after = after;
  }
};

const heard = new Map();
const on = (name, then) => heard.set(name, [...(heard.get(name) ?? []), then]);

// How many tools of sources wait to be accepted, for whoever can accept them.
const countTools = async () => {
  const place = $("[data-unaccepted]");
  if (!place) return;
  const { unacceptedTools } = await call("GET", "/api/standing").catch(() => ({}));
  if (unacceptedTools === undefined) return;
  place.textContent = unacceptedTools;
  place.hidden = unacceptedTools === 0;
};

const listen = async () => {
  if (document.body.dataset.after === undefined) return;
  const counted = new Set();
  const leaving = new AbortController();
  // A browser keeps pages that were left, and their streams; six of those, and the next page waits a minute for a connection.
  addEventListener("pagehide", () => leaving.abort());
  const tell = (name, data) => { for (const then of heard.get(name) ?? []) then(data); };
  on("elicitation.pending", ({ elicitation, elicitationId }) => {
    if (!counted.has(elicitationId)) { counted.add(elicitationId); count(1); }
    if (cards) arrive(elicitationId);
    if (elicitation?.status === "pending") announce(elicitation);
  });
  on("elicitation.decided", ({ elicitation, elicitationId }) => {
    counted.delete(elicitationId);
    count(-1);
    if (elicitation?.decision) leave(elicitationId, elicitation.decision);
  });
  for (const name of ["execution.status", "call.settled"])
    on(name, ({ status }) => {
      if (status === "in_doubt" || Number($("[data-count]")?.dataset.doubts) > 0) doubtsSoon();
    });
  for (const name of ["execution.status", "call.started", "call.settled", "elicitation.pending"])
    on(name, ({ executionId }) => {
      const live = $("[data-live]");
      if (live && (live.dataset.execution === undefined || live.dataset.execution === executionId)) refreshSoon();
    });
  on("catalog.changed", () => {
    countTools();
    if ($("[data-catalog]")) refreshSoon();
  });
  while (!leaving.signal.aborted) {
    // It goes on after the last event that was heard, so that nothing is missed in between.
    await follow(document.body.dataset.after, leaving.signal, tell).catch(() => {});
    if (leaving.signal.aborted) return;
    $("#offline").hidden = false;
    await new Promise((go) => setTimeout(go, againMs));
  }
};

// ---- Keys and clicks

const typing = (target) => target.closest?.("input, textarea, select, dialog") !== null;

document.addEventListener("keydown", async (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && page === "inbox") {
    if (typing(event.target)) event.target.blur();
    else if (!cards) location.assign("/");
    return;
  }
  if (event.key === "Enter" && event.target.matches?.("#decide [name=reason]")) {
    event.preventDefault();
    return decide("deny");
  }
  // It would press the first button, while the number is still being written.
  if (event.key === "Enter" && event.target.matches?.("#decide .scope input")) {
    event.preventDefault();
    return $('#decide [value="session"]').focus();
  }
  if (typing(event.target) || $("dialog[open]")) return;
  const { key } = event;
  const on = (action) => { event.preventDefault(); return action(); };
  if (key === "?" && $("#keys")) return on(() => $("#keys").showModal());
  if (page !== "inbox") return;
  if (cards && key === "j") return on(() => step(1));
  if (cards && key === "k") return on(() => step(-1));
  if (cards && key === "Enter" && (event.target === document.body || event.target.closest(".card"))) {
    const to = event.target.closest(".card") ?? chosen();
    return to && on(() => location.assign($("a", to).href));
  }
  if (!["a", "o", "s", "d"].includes(key) || event.repeat || !$("#decide")) return;
  if (cards && (!isWide() || request()?.dataset.id !== chosen()?.dataset.id)) return;
  if (key === "d") return on(() => $("#decide").elements.reason.focus());
  const scope = $("#decide .scope select");
  if (key === "s" && scope) return on(() => scope.focus());
  // What could not count for the session is approved with a.
  if (key !== "a" && !scope) return on(() => say("This tool needs approval for each call."));
  return on(() => decide(key === "o" ? "call" : $("#decide .primary").value));
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("#decide")) {
    event.preventDefault();
    decide(event.submitter?.value ?? $(".primary", form).value);
  } else if (form.dataset.api) {
    event.preventDefault();
    submit(form);
  }
});

document.addEventListener("click", async (event) => {
  const on = (selector) => event.target.closest(selector);
  if (on("[data-log-out]")) {
    await call("POST", "/logout");
    store.remove("csrf");
    location.assign("/login");
  } else if (on("[data-show-keys]")) $("#keys").showModal();
  else if (on("[data-notify]")) wish("notify");
  else if (on("[data-sound]")) wish("sound");
  else if (on("[data-copy]")) navigator.clipboard.writeText($("#secret pre").textContent).then(() => say("Copied."));
  else if (on(".card a") && isWide() && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    choose(on(".card"));
  }
});

// ---- Beginning

// A page that comes back from the browser's cache shows what was, and hears of nothing.
addEventListener("pageshow", (event) => event.persisted && location.reload());

if (page === "welcome") {
  store.set("csrf", $("#pass").dataset.csrf);
  const next = store.get("next");
  store.remove("next");
  location.replace(next?.startsWith("/") && !next.startsWith("//") ? next : "/");
} else if (page === "turned-away") {
  store.set("next", location.pathname + location.search);
} else {
  wishes();
  tick();
  setInterval(tick, 1000);
  // What only some pages need comes with them.
  const { module } = document.body.dataset;
  if (module) (await import(module)).default({ $, $$, call, explained, fetchPage, gather, keyed, on, refresh, say, settleMs, toMarkup });
  listen();
  watchEnd();
  if (cards) {
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && loadMore()).observe($("#more"));
    if (isWide() && cards.firstElementChild) choose(cards.firstElementChild);
  }
}
