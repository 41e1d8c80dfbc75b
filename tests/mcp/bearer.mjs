// Passes HTTP on to a server that wants a bearer token, for clients that cannot send one.
//
// Usage: node bearer.mjs http://HOST:PORT TOKEN-FILE
// Prints the address it listens on. Every field of a request goes through as it is, except that
// whoever calls this program by its own address means the server behind it.

import { readFileSync } from "node:fs";
import http from "node:http";

const [target, tokenFile] = process.argv.slice(2);
const server = new URL(target);
const token = readFileSync(tokenFile, "utf8").trim();

const proxy = http.createServer((request, response) => {
  const here = `127.0.0.1:${proxy.address().port}`;
  const onward = http.request({
    host: server.hostname,
    port: server.port,
    method: request.method,
    path: request.url,
    setHost: false,
  });
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    const value = request.rawHeaders[at + 1].replaceAll(here, server.host);
    onward.setHeader(request.rawHeaders[at], value);
  }
  onward.setHeader("authorization", `Bearer ${token}`);
  onward.on("response", (answer) => {
    response.writeHead(answer.statusCode, answer.rawHeaders);
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
});

proxy.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${proxy.address().port}`));
