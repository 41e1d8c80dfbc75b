#!/usr/bin/python3
"""An MCP server for tests: asks the kernel over its own socket, keeps count, says what it was given."""
import json
import os
import socket
import struct
import sys

NAME = os.path.basename(os.getcwd())
CONFIGURATION = {}


def exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise RuntimeError("closed")
        data += more
    return data


def request(stream, number, method, params):
    message = {"id": number, "type": "request", "method": method, "params": params}
    data = json.dumps(message).encode()
    stream.sendall(struct.pack(">I", len(data)) + data)
    (length,) = struct.unpack(">I", exactly(stream, 4))
    answer = json.loads(exactly(stream, length))
    if answer.get("error"):
        raise RuntimeError(json.dumps(answer["error"]))
    return answer.get("result")


def ask(given, action):
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(30)
            stream.connect(os.environ["AIRLOCK_SOCKET"])
            request(stream, 1, "handshake", {"name": NAME, "version": "1", "api": 1})
            params = {"name": "fs.read", "arguments": {"path": "a.txt"}, "within": action}
            return request(stream, 2, "call", params)
    except Exception as error:
        return {"error": str(error)}


def hit(given, action):
    # One write of a few bytes at the end of a file is whole, whoever else writes.
    with open("hits", "ab", buffering=0) as hits:
        hits.write((given["id"] + "\n").encode())
    return {"id": given["id"]}


def settings(given, action):
    secret = CONFIGURATION.get("api_key", "")
    return {
        "limit": CONFIGURATION.get("limit"),
        "said": secret,
        "length": len(secret),
        "in_environment": any(secret and secret in value for value in os.environ.values()),
        "variable": os.environ.get("PLUGIN_SETTING_LIMIT"),
    }


def fail(given, action):
    raise ValueError("the key " + CONFIGURATION.get("api_key", "") + " is wrong")


def descriptors(given, action):
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink("/proc/self/fd/" + number)
        except OSError:
            pass
    return {"open": found}


TOOLS = {"ask": ask, "hit": hit, "settings": settings, "fail": fail, "descriptors": descriptors}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    params = message.get("params") or {}
    if message["method"] == "initialize":
        CONFIGURATION = params.get("_meta", {}).get("airlock/configuration", {})
        answer = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "t", "version": "1"}}
    elif message["method"] == "tools/list":
        answer = {"tools": [{"name": name, "description": name, "inputSchema": {"type": "object"}}
                            for name in TOOLS]}
    elif message["method"] == "tools/call":
        try:
            told = TOOLS[params["name"]](params.get("arguments") or {}, params["_meta"]["airlock/action"])
            answer = {"content": [], "structuredContent": told}
        except ValueError as error:
            answer = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    else:
        answer = {}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
