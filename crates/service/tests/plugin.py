#!/usr/bin/env python3
"""An MCP server that asks the kernel, over the socket of its own, for what its tool is called with."""
import json
import os
import socket
import struct
import sys


class Kernel:
    def __init__(self, name):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(30)
        self.stream.connect(os.environ["AIRLOCK_SOCKET"])
        self.number = 0
        self.call("handshake", {"name": name, "version": "1", "api": 1})

    def call(self, method, params):
        self.number += 1
        message = {"id": self.number, "type": "request", "method": method, "params": params}
        data = json.dumps(message).encode()
        self.stream.sendall(struct.pack(">I", len(data)) + data)
        (length,) = struct.unpack(">I", self.exactly(4))
        answer = json.loads(self.exactly(length))
        if answer.get("error"):
            raise RuntimeError(json.dumps(answer["error"]))
        return answer.get("result")

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.stream.recv(count - len(data))
            if not more:
                raise RuntimeError("closed")
            data += more
        return data


def ask(given, meta):
    try:
        kernel = Kernel(given.get("as", "tickets"))
        params = {"name": given["name"], "arguments": given["arguments"]}
        params["within"] = given.get("within", meta["airlock/action"])
        params.update(given.get("more", {}))
        return kernel.call(given.get("method", "call"), params)
    except Exception as error:
        return {"error": str(error)}


TOOLS = [{"name": "ask", "description": "Ask", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params = message.get("params") or {}
    if message["method"] == "initialize":
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "t", "version": "1"}}
    elif message["method"] == "tools/list":
        answer = {"tools": TOOLS}
    elif message["method"] == "tools/call":
        told = ask(params["arguments"], params["_meta"])
        answer = {"content": [], "structuredContent": {"told": told}}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
