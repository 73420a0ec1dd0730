// Loaded before the conformance suite, which has no way to be given a token: every request it makes carries one, so that
// the server that is judged is the one that checks tokens.

import http from "node:http";
import { Agent, setGlobalDispatcher } from "undici";

const bearer = `Bearer ${process.env.COUNTERSIGN_TOKEN}`;

const withToken = (headers) => {
  if (Array.isArray(headers)) return [...headers, "authorization", bearer];
  if (headers && typeof headers[Symbol.iterator] === "function") return [...headers, ["authorization", bearer]];
  return { ...headers, authorization: bearer };
};

// `fetch` and the suite's own `request` both go through this dispatcher.
setGlobalDispatcher(
  new Agent().compose((dispatch) => (options, handler) =>
    dispatch({ ...options, headers: withToken(options.headers) }, handler),
  ),
);

// Where it wants full control of the headers it uses Node's own.
const { request } = http;
http.request = (options, ...rest) => request({ ...options, headers: { ...options.headers, authorization: bearer } }, ...rest);
