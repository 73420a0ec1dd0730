// An MCP server (legacy era) whose tool `append` writes a line into a file, over stdio or, given a port, over streamable HTTP.
//
// It can be stopped right before and right after the effect: for as long as `hold-before` or `hold-after` is in its folder,
// a call stays there, and says so in `reached-before` or `reached-after`.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const [folder, port] = process.argv.slice(2);
const file = (name) => `${folder}/${name}`;
const put = (name, text) => {
  // Whoever waits for the file must not find it half written.
  writeFileSync(file(`${name}.new`), text);
  renameSync(file(`${name}.new`), file(name));
};
const held = async (where) => {
  if (existsSync(file(`hold-${where}`))) put(`reached-${where}`, "");
  while (existsSync(file(`hold-${where}`))) await new Promise((go) => setTimeout(go, 5));
};
const text = (text) => ({ content: [{ type: "text", text }] });
const inputSchema = { type: "object", properties: { line: { type: "string" } }, required: ["line"], additionalProperties: false };

const answer = async ({ method, params }) => {
  switch (method) {
    case "initialize":
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "ledger", version: "1" } };
    case "tools/list":
      return { tools: [{ name: "append", description: "Appends a line", inputSchema }, { name: "look", description: "Counts the lines", inputSchema: { type: "object" } }] };
    case "tools/call":
      if (params.name === "look") return text(String(existsSync(file("ledger")) ? readFileSync(file("ledger"), "utf8").split("\n").length - 1 : 0));
      await held("before");
      appendFileSync(file("ledger"), `${params.arguments.line}\n`);
      await held("after");
      return text(`appended ${params.arguments.line}`);
    default:
      return undefined;
  }
};

const reply = async (message) => {
  const result = await answer(message);
  const error = { code: -32601, message: `no ${message.method}` };
  return JSON.stringify({ jsonrpc: "2.0", id: message.id, ...(result === undefined ? { error } : { result }) });
};

const overStdio = () => {
  createInterface({ input: process.stdin }).on("line", async (line) => {
    const message = JSON.parse(line);
    if (message.id !== undefined) process.stdout.write(`${await reply(message)}\n`);
  });
  process.stdin.on("end", () => process.exit(0));
  put("pid", String(process.pid));
};

const overHttp = () => {
  const sessions = new Set();
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    if (request.method !== "POST") return response.writeHead(405).end();
    const message = JSON.parse(body);
    const session = message.method === "initialize" ? randomUUID() : request.headers["mcp-session-id"];
    if (message.method === "initialize") sessions.add(session);
    else if (message.method === "server/discover") return response.writeHead(400).end();
    else if (!sessions.has(session)) return response.writeHead(404).end();
    if (message.id === undefined) return response.writeHead(202).end();
    const answered = await reply(message);
    response.writeHead(200, { "content-type": "application/json", "mcp-session-id": session }).end(answered);
  });
  server.listen(Number(port), "127.0.0.1", () => {
    put("port", String(server.address().port));
    put("pid", String(process.pid));
  });
};

port === undefined ? overStdio() : overHttp();
