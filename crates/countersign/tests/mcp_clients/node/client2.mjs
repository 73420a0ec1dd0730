// The 2.x client, pinned to 2026-07-28: no session, and questions come back as results. With `negotiate` it takes an older
// revision where a server has no other.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { drive } from "./driver.mjs";

drive({ make, callTool: (client, params, options) => client.callTool(params, options) });

async function make(options, onAsked, onChanged, onUsed) {
  const watched = options.watch ? ["tools", "resources", "prompts"] : [];
  const listChanged = Object.fromEntries(
    watched.map((list) => [list, { autoRefresh: false, debounceMs: 0, onChanged: () => onChanged(list) }]),
  );
  const capabilities = options.elicitation ? { elicitation: {} } : {};
  if (options.rich) Object.assign(capabilities, { roots: { listChanged: true }, sampling: {} });
  const client = new Client(
    { name: "client2", version: "2" },
    { capabilities, listChanged, versionNegotiation: { mode: options.negotiate ? "auto" : { pin: "2026-07-28" } } },
  );
  if (options.elicitation) {
    client.setRequestHandler("elicitation/create", (request, context) =>
      onAsked(request.params, context?.mcpReq?.signal),
    );
  }
  if (options.rich) {
    client.setRequestHandler("roots/list", onUsed.roots);
    client.setRequestHandler("sampling/createMessage", onUsed.sampling);
  }
  const transport = options.url
    ? new StreamableHTTPClientTransport(new URL(options.url), {
        requestInit: { headers: { authorization: `Bearer ${options.token}` } },
      })
    : new StdioClientTransport({ command: options.command, args: options.args, env: options.env });
  await client.connect(transport);
  return client;
}
