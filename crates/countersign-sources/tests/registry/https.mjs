// An HTTPS server with the certificate of its folder. It notes every request that it can read, and its port in the file `port`.
import { createServer } from "node:https";
import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const file = (name) => `${process.argv[2]}/${name}`;
const secrets = { key: readFileSync(file("key.pem")), cert: readFileSync(file("cert.pem")) };
const server = createServer(secrets, (request, response) => {
  appendFileSync(file("ledger"), `${request.method} ${request.url}\n`);
  response.end("{}");
});
server.listen(0, "127.0.0.1", () => {
  // Whoever waits for the file must not find it half written.
  writeFileSync(file("port.new"), String(server.address().port));
  renameSync(file("port.new"), file("port"));
});
