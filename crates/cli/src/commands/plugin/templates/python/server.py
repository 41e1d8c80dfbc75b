"""An MCP server on standard streams: one JSON message a line. Calls run at the same time."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

from tools import ToolError

PROTOCOL = "2025-06-18"
CALLS_AT_ONCE = 8


class Refused(Exception):
    """A request that cannot be served: a JSON-RPC error."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Server:
    def __init__(self, name, version, tools, write):
        self.about = {"name": name, "version": version}
        self.tools = tools
        self._write = write
        self._lock = threading.Lock()
        self._cancelled = set()

    def answer(self, message):
        """Serves one message. Notifications get no answer."""
        method, identity = message.get("method"), message.get("id")
        parameters = message.get("params") or {}
        if method == "notifications/cancelled":
            self._cancelled.add(parameters.get("requestId"))
        if identity is None:
            return
        try:
            reply = {"result": self._serve(method, parameters)}
        except Refused as refused:
            reply = {"error": {"code": refused.code, "message": str(refused)}}
        if identity in self._cancelled:
            self._cancelled.discard(identity)
        else:
            self._send({"jsonrpc": "2.0", "id": identity, **reply})

    def _serve(self, method, parameters):
        if method == "initialize":
            return {
                "protocolVersion": parameters.get("protocolVersion", PROTOCOL),
                "capabilities": {"tools": {}},
                "serverInfo": self.about,
            }
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [self._describe(name) for name in self.tools]}
        if method == "tools/call":
            return self._call(parameters)
        raise Refused(-32601, f"there is no method {method}")

    def _describe(self, name):
        tool = self.tools[name]
        return {
            "name": name,
            "description": tool["summary"],
            "inputSchema": tool["schema"],
            "annotations": {"readOnlyHint": tool["read_only"]},
        }

    def _call(self, parameters):
        tool = self.tools.get(parameters.get("name"))
        if tool is None:
            raise Refused(-32602, f"there is no tool {parameters.get('name')}")
        try:
            value = tool["function"](**(parameters.get("arguments") or {}))
        except (ToolError, TypeError) as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        text = json.dumps(value)
        return {"content": [{"type": "text", "text": text}], "structuredContent": value}

    def _send(self, message):
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            self._write(line)


def serve(name, version, tools, source, sink):
    """Serves until the other side is gone."""

    def write(line):
        sink.write(line)
        sink.flush()

    server = Server(name, version, tools, write)
    with ThreadPoolExecutor(CALLS_AT_ONCE) as calls:
        for line in source:
            if not line.strip():
                continue
            message = json.loads(line)
            if message.get("method") == "tools/call":
                calls.submit(server.answer, message)
            else:
                server.answer(message)
