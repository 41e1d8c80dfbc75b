#!/usr/bin/python3
"""An MCP server with one tool, which keeps count of its calls."""
import json
import sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "hit", "version": "1"}}
    elif message["method"] == "tools/list":
        answer = {"tools": [{"name": "hit", "description": "Be counted", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        given = message["params"]["arguments"]
        # One write of a few bytes at the end of a file is whole, whoever else writes.
        with open("hits", "ab", buffering=0) as hits:
            hits.write((given["id"] + "\n").encode())
        answer = {"content": [], "structuredContent": given}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
