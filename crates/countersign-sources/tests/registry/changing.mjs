// An MCP server whose tools are what `tools.json` in its folder says at the moment. It tells its client whenever that file
// changes, unless there is a file `quiet`, in the way of the era that the client speaks, over stdio or, given a port, over streamable HTTP (port 0: any free
// one). What is called and what is cancelled are lines of the file `ledger`.
//
//   changing.mjs FOLDER legacy|modern [PORT]
//
// The tool `wait` never answers. The tool `ask` asks its client for what is in `question.json`, as a server of 2025 does. Every
// other tool answers with its own name, or with what is in `answer.json`.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { appendFileSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";

const [folder, era, port] = process.argv.slice(2);
const isModern = era === "modern";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
const file = (name) => `${folder}/${name}`;
const note = (line) => appendFileSync(file("ledger"), `${line}\n`);
const read = (name) => (existsSync(file(name)) ? JSON.parse(readFileSync(file(name), "utf8")) : undefined);
const put = (name, text) => {
  // Whoever waits for the file must not find it half written.
  writeFileSync(file(`${name}.new`), text);
  renameSync(file(`${name}.new`), file(name));
};

// Where unasked messages go: functions that send one. A subscription of the later era has its id.
const listeners = new Map();
const changed = "notifications/tools/list_changed";
const tellAll = () => {
  for (const [id, send] of listeners) {
    send(isModern ? { method: changed, params: { _meta: { [SUBSCRIPTION]: id } } } : { method: changed });
  }
};
const version = () => statSync(file("tools.json"), { bigint: true }).mtimeNs;
let known = version();
setInterval(() => {
  if (version() === known) return;
  known = version();
  if (!existsSync(file("quiet"))) tellAll();
}, 10);

const listens = (key, send) => {
  listeners.set(key, send);
  put("listening", "");
};

// What is asked of the client, and what is done with its answer.
const asked = new Map();
const complete = (result) => (isModern ? { resultType: "complete", ...result } : result);
const cacheable = (result) => (isModern ? { ...complete(result), ttlMs: 0, cacheScope: "private" } : result);
const text = (text) => complete({ content: [{ type: "text", text }] });

// The result of a request; nothing where none comes, and an error where it throws.
const result = async ({ id, method, params }, send) => {
  switch (method) {
    case "server/discover":
      if (!isModern) break;
      return cacheable({ supportedVersions: ["2026-07-28"], capabilities: { tools: { listChanged: true } } });
    case "initialize":
      if (isModern) break;
      return { protocolVersion: "2025-11-25", capabilities: { tools: { listChanged: true } }, serverInfo: { name: "changing", version: "1" } };
    case "tools/list":
      return cacheable({ tools: read("tools.json") });
    case "subscriptions/listen":
      send({ method: "notifications/subscriptions/acknowledged", params: { notifications: { toolsListChanged: true }, _meta: { [SUBSCRIPTION]: id } } });
      listens(id, send);
      return undefined;
    case "tools/call":
      note(params.name);
      if (params.name === "wait") return undefined;
      if (params.name === "ask") {
        const question = read("question.json");
        send({ id: `q-${id}`, method: "elicitation/create", params: question });
        return new Promise((resolve) => asked.set(`q-${id}`, (answer) => resolve(text(JSON.stringify(answer)))));
      }
      return read("answer.json") ?? text(params.name);
  }
  throw { code: -32601, message: `no ${method}` };
};

const take = async (message, send) => {
  if (message.method === undefined) return asked.get(message.id)?.(message.result ?? message.error);
  if (message.method === "notifications/cancelled") note("cancelled");
  if (message.id === undefined) return;
  try {
    const value = await result(message, send);
    if (value !== undefined) send({ id: message.id, result: value });
  } catch (error) {
    send({ id: message.id, error: error.code ? error : { code: -32603, message: String(error) } });
  }
};

const overStdio = () => {
  const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  if (!isModern) listens("stdio", send);
  createInterface({ input: process.stdin }).on("line", (line) => take(JSON.parse(line), send));
  process.stdin.on("end", () => process.exit(0));
};

const overHttp = () => {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.method === "DELETE") return response.writeHead(204).end();
    const begin = () => response.headersSent || response.writeHead(200, { "content-type": "text/event-stream", "mcp-session-id": "s-1" }).flushHeaders();
    const send = (message) => (begin(), response.write(`data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`));
    if (request.method === "GET") {
      if (isModern) return response.writeHead(405).end();
      begin();
      response.on("close", () => listeners.delete(response));
      return listens(response, send);
    }
    const message = JSON.parse(body);
    if (message.id === undefined || message.method === undefined) {
      await take(message, send);
      return response.writeHead(202).end();
    }
    // In the later era a request is cancelled by the end of its stream.
    response.on("close", () => response.writableEnded || note("closed"));
    const isOpen = message.method === "subscriptions/listen" || message.params?.name === "wait";
    await take(message, send);
    if (isOpen && response.writableEnded === false) return begin();
    response.end();
  });
  server.listen(Number(port), "127.0.0.1", () => put("port", String(server.address().port)));
};

port === undefined ? overStdio() : overHttp();
