// One official MCP client, driven by a Rust test in JSON lines: commands come in on standard input, answers and events
// go out on standard output, in the order in which they happen. Everything about the wire is the client's own.
//
//   in    {"op":"connect","url"|"command","args","env","token","elicitation","version"}   {"op":"list"}   {"op":"prompts"}
//         {"op":"call","name","arguments","progress"}   {"op":"abort","call"}   {"op":"answer","key","reply"}   {"op":"close"}
//         {"op":"ask","method","params"}: any other method of the client, such as readResource
//   out   {"id","ok",…}   {"event":"asked","key","params"}   {"event":"withdrawn","key"}   {"event":"progress","call",…}
//         {"event":"changed","list"}   {"event":"used","what"}

import { createInterface } from "node:readline";

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// `make(options, onAsked, onChanged, onUsed)` gives a connected client; `callTool(client, params, options)` calls through it.
export function drive({ make, callTool }) {
  let client;
  const calls = new Map();
  const questions = new Map();
  let asked = 0;

  // The promise stands until the test answers or the server withdraws the question: a person's time has no bound.
  const onAsked = (params, signal) =>
    new Promise((resolve) => {
      const key = ++asked;
      questions.set(key, resolve);
      signal?.addEventListener("abort", () => {
        questions.delete(key);
        say({ event: "withdrawn", key });
        resolve({ action: "cancel" });
      });
      say({ event: "asked", key, params });
    });

  // The client's own roots and model, where the test gives it some.
  const onUsed = {
    roots: () => (say({ event: "used", what: "roots" }), { roots: [{ uri: "file:///home/agent", name: "home" }] }),
    sampling: () => (say({ event: "used", what: "sampling" }), { model: "m", role: "assistant", content: { type: "text", text: "Hi" } }),
  };
  const onChanged = (list) => say({ event: "changed", list });

  const ops = {
    async connect(options) {
      client = await make(options, onAsked, onChanged, onUsed);
      return { version: client.getNegotiatedProtocolVersion?.() ?? options.version, server: client.getServerVersion() };
    },
    async list() {
      return { tools: (await client.listTools()).tools };
    },
    async prompts() {
      const declared = client.getServerCapabilities().prompts !== undefined;
      return { declared, prompts: declared ? (await client.listPrompts()).prompts : [] };
    },
    async call({ id, name, arguments: args, progress }) {
      const abort = new AbortController();
      calls.set(id, abort);
      const options = { signal: abort.signal, timeout: 600_000, resetTimeoutOnProgress: true };
      if (progress) options.onprogress = (step) => say({ event: "progress", call: id, ...step });
      try {
        return { result: await callTool(client, { name, arguments: args ?? {} }, options) };
      } finally {
        calls.delete(id);
      }
    },
    async ask({ method, params }) {
      return { result: await client[method](params ?? undefined) };
    },
    async abort({ call }) {
      calls.get(call)?.abort("the test gave up");
      return {};
    },
    async answer({ key, reply }) {
      const resolve = questions.get(key);
      questions.delete(key);
      resolve?.(reply);
      return { was_open: resolve !== undefined };
    },
    async close() {
      await client?.close();
      return {};
    },
  };

  createInterface({ input: process.stdin }).on("line", (line) => {
    const command = JSON.parse(line);
    ops[command.op](command).then(
      (answer) => say({ id: command.id, ok: true, ...answer }),
      (error) => say({ id: command.id, ok: false, code: error.code, message: String(error.message), data: error.data }),
    );
  }).on("close", () => process.exit(0));
}
