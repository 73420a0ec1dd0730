// A server of the official SDK that asks before it acts, in the way of the era its client speaks.
import { appendFileSync } from "node:fs";
import { McpServer, acceptedContent, createRequestStateCodec, fromJsonSchema, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const codec = createRequestStateCodec({ key: "0123456789abcdef0123456789abcdef" });
const form = {
  type: "object",
  properties: { confirm: { type: "boolean", title: "Really?" } },
  required: ["confirm"],
};

serveStdio(() => {
  const server = new McpServer(
    { name: "asks", version: "1.0.0" },
    { capabilities: { tools: { listChanged: true } }, requestState: { verify: codec.verify } },
  );
  const inputSchema = fromJsonSchema({ type: "object", properties: { env: { type: "string" } }, required: ["env"] });
  server.registerTool("deploy", { description: "Deploys", inputSchema }, async ({ env }, ctx) => {
    const state = ctx.mcpReq.requestState?.();
    const answer = acceptedContent(ctx.mcpReq.inputResponses, "confirm");
    if (state === undefined) {
      return inputRequired({
        inputRequests: { confirm: inputRequired.elicit({ message: `Deploy to ${env}?`, requestedSchema: form }) },
        requestState: await codec.mint({ env }),
      });
    }
    if (answer?.confirm !== true) return { content: [{ type: "text", text: "not deployed" }] };
    if (process.env.LEDGER) appendFileSync(process.env.LEDGER, `${env}\n`);
    return { content: [{ type: "text", text: `deployed to ${state.env}` }] };
  });
  server.registerTool("grow", { description: "Adds a tool", inputSchema: fromJsonSchema({ type: "object" }) }, async () => {
    server.registerTool("grown", { description: "New", inputSchema: fromJsonSchema({ type: "object" }) }, async () => ({ content: [] }));
    return { content: [{ type: "text", text: "grown" }] };
  });
  return server;
});
