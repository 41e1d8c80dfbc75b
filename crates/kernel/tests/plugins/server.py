#!/usr/bin/env python3
"""An MCP server whose tools are described by a file among its own data, if there is one."""
import json
import os
import sys

words = "Echo a text"
if os.path.exists("words"):
    words = open("words").read()
SELF = os.urandom(4).hex()
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
          "additionalProperties": False}
TOOLS = [{"name": "echo", "description": words, "inputSchema": SCHEMA},
         {"name": "pid", "description": "Its process", "inputSchema": {"type": "object"}},
         {"name": "die", "description": "Ends it", "inputSchema": {"type": "object"}}]


def result(name, given):
    if name == "die":
        os._exit(3)
    open("calls", "a").write(name + "\n")
    text = given["text"] if name == "echo" else SELF
    return {"content": [{"type": "text", "text": text}], "isError": text.startswith("fails:")}


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
        answer = result(params["name"], params.get("arguments") or {})
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
