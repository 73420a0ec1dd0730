// A server of the official SDK, in both eras, with everything that the protocol lets a server say and the published servers
// leave out: audio, icons, `_meta` at every place, failures with structured content, resources and prompts with all fields. It
// speaks over stdio or, with the word `streamableHttp`, over streamable HTTP on the port of its environment.

import { createServer } from "node:http";
import { McpServer, ResourceTemplate, createMcpHandler, fromJsonSchema, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const icons = [{ src: "https://shows.example/icon.png", mimeType: "image/png", sizes: ["48x48"] }];
const annotations = { audience: ["user", "assistant"], priority: 0.7, lastModified: "2026-07-28T12:00:00Z" };
const _meta = { "shows.example/trace": { id: 7 } };
const nothing = fromJsonSchema({ type: "object" });
const tree = {
  type: "object",
  $defs: { Node: { type: "object", properties: { name: { type: "string" }, next: { $ref: "#/$defs/Node" } }, required: ["name"] } },
  properties: { first: { $ref: "#/$defs/Node" } },
  required: ["first"],
};
const reads = { readOnlyHint: true, openWorldHint: false };

const blocks = [
  { type: "text", text: "Grüße \u{1F441}", annotations, _meta },
  { type: "image", data: "aGk=", mimeType: "image/png", annotations, _meta },
  { type: "audio", data: "aGk=", mimeType: "audio/wav", annotations, _meta },
  { type: "resource_link", uri: "file:///a.txt", name: "a", title: "A", description: "d", mimeType: "text/plain", size: 7, icons, annotations, _meta },
  { type: "resource", resource: { uri: "file:///a.txt", mimeType: "text/plain", text: "x", _meta }, annotations, _meta },
  { type: "resource", resource: { uri: "file:///b", mimeType: "application/octet-stream", blob: "aGk=" } },
];

const make = ({ era }) => {
  const server = new McpServer(
    { name: "shows", version: "1.0.0" },
    { capabilities: { tools: { listChanged: true }, resources: { listChanged: true }, prompts: { listChanged: true } } },
  );
  const tool = (name, more, answer) =>
    server.registerTool(name, { description: `Shows ${name}`, annotations: reads, inputSchema: nothing, ...more }, answer);

  tool("show-blocks", { title: "Blocks", icons, _meta, annotations: { ...reads, title: "In the annotations" } }, async () => ({ content: blocks, _meta }));
  tool("show-tree", { outputSchema: fromJsonSchema(tree) }, async () => ({
    content: [{ type: "text", text: "a tree" }],
    structuredContent: { first: { name: "a", next: { name: "b" } } },
    _meta,
  }));
  tool("show-unasked-structure", {}, async () => ({ content: [], structuredContent: { any: [1, null, "x"] } }));
  tool("show-failure", {}, async () => ({ content: blocks, structuredContent: { why: "no" }, isError: true, _meta }));
  tool("show-nothing", {}, async () => ({ content: [] }));
  tool("show-exception", {}, async () => {
    throw new Error("it went wrong");
  });
  tool("write-something", { annotations: { destructiveHint: false, idempotentHint: true } }, async () => ({ content: [{ type: "text", text: "written" }] }));

  // What the client at the other end has, and what it gives.
  const wish = fromJsonSchema({ type: "object", properties: { wish: { enum: ["capabilities", "roots", "sampling"] } }, required: ["wish"] });
  tool("ask-the-client", { inputSchema: wish }, async ({ wish }, ctx) => {
    const says = (value) => ({ content: [{ type: "text", text: JSON.stringify(value) }] });
    const sampling = { messages: [{ role: "user", content: { type: "text", text: "Hello" } }], maxTokens: 10 };
    const modern = ctx.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"];
    if (wish === "capabilities") return says(modern ?? server.server.getClientCapabilities());
    if (era === "legacy") return says(wish === "roots" ? await server.server.listRoots() : await server.server.createMessage(sampling));
    const given = ctx.mcpReq.inputResponses?.[wish];
    if (given) return says(given);
    return inputRequired({ inputRequests: { [wish]: wish === "roots" ? inputRequired.listRoots() : inputRequired.createMessage(sampling) } });
  });

  server.registerResource(
    "full",
    "file:///full.txt",
    { title: "Full", description: "All fields", mimeType: "text/plain", size: 4, icons, annotations, _meta },
    async (uri) => ({
      contents: [
        { uri: uri.href, mimeType: "text/plain", text: "full", _meta },
        { uri: "file:///part", mimeType: "application/octet-stream", blob: "aGk=" },
      ],
      _meta,
    }),
  );
  server.registerResource(
    "any",
    new ResourceTemplate("file:///any/{name}", { list: undefined }),
    { title: "Any", description: "By name", mimeType: "text/plain", icons, annotations, _meta },
    async (uri, { name }) => ({ contents: [{ uri: uri.href, text: `any ${name}` }] }),
  );
  const words = fromJsonSchema({ type: "object", properties: { word: { type: "string", description: "A word" } }, required: ["word"] });
  server.registerPrompt("say", { title: "Say", description: "Says it", argsSchema: words, icons, _meta }, async ({ word }) => ({
    description: `Says ${word}`,
    messages: [...blocks.map((content) => ({ role: "user", content })), { role: "assistant", content: { type: "text", text: word } }],
    _meta,
  }));
  return server;
};

// The SDK's handler takes the requests of the web; this is all that Node needs for it.
const serveHttp = () => {
  const handler = createMcpHandler(make);
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const { method, headers, url } = request;
    const body = method === "POST" ? Buffer.concat(parts) : undefined;
    const answer = await handler.fetch(new Request(`http://127.0.0.1${url}`, { method, headers, body, signal: gone.signal }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    try {
      for await (const part of answer.body ?? []) response.write(part);
    } catch {
      // The client closed its request.
    }
    response.end();
  });
  server.listen(Number(process.env.PORT), "127.0.0.1", () => console.error("listening"));
};

process.argv[2] === "streamableHttp" ? serveHttp() : serveStdio(make);
