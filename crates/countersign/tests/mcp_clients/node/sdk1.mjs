// The 1.x SDK: protocol 2025-11-25, or an older one that the test names.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { drive } from "./driver.mjs";

drive({
  make,
  // The result's schema has the second place; without one it is the plain result's.
  callTool: (client, params, options) => client.callTool(params, undefined, options),
});

async function make(options, onAsked, onChanged, onUsed) {
  const watched = options.watch ? ["tools", "resources", "prompts"] : [];
  const listChanged = Object.fromEntries(
    watched.map((list) => [list, { autoRefresh: false, debounceMs: 0, onChanged: () => onChanged(list) }]),
  );
  const capabilities = options.elicitation ? { elicitation: {} } : {};
  if (options.rich) Object.assign(capabilities, { roots: { listChanged: true }, sampling: {} });
  const client = new Client({ name: "sdk1", version: "1" }, { capabilities, listChanged });
  if (options.elicitation) {
    client.setRequestHandler(ElicitRequestSchema, (request, extra) => onAsked(request.params, extra.signal));
  }
  if (options.rich) {
    client.setRequestHandler(ListRootsRequestSchema, onUsed.roots);
    client.setRequestHandler(CreateMessageRequestSchema, onUsed.sampling);
  }
  const transport = options.url
    ? new StreamableHTTPClientTransport(new URL(options.url), {
        requestInit: { headers: { authorization: `Bearer ${options.token}` } },
      })
    : new StdioClientTransport({ command: options.command, args: options.args, env: options.env });
  await client.connect(options.version ? asking(transport, options.version) : transport);
  return client;
}

// The SDK always offers its newest revision; an older client is one that offers its own.
function asking(transport, version) {
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    if (message.method === "initialize") message.params.protocolVersion = version;
    return send(message, ...rest);
  };
  return transport;
}
