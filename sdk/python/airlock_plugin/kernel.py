"""Calls to the kernel, over the socket it has for this plugin.

The protocol is in Airlock's docs/protocol.md: frames of JSON, a handshake, requests. Who asks is
known by the socket; the name in the handshake must be that one.
"""

import itertools
import json
import os
import socket
import struct
import threading

from . import _version

# As the greeting allows at least; a longer answer is refused by the kernel itself.
_LONGEST = 16 * 1024 * 1024


class KernelError(Exception):
    """A call gave no result. `code` is a stable word, `retryable` whether to try again."""

    def __init__(self, code, message, retryable=False):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retryable = retryable


class Denied(KernelError):
    """It may not happen, or only once a person has said yes (`code` is then `review`)."""


class Kernel:
    """The kernel. Calls from several threads run side by side."""

    def __init__(self, path, plugin, timeout=None):
        self._path = path
        self._plugin = plugin
        self._timeout = timeout
        self._idle = []
        self._lock = threading.Lock()

    def call(self, name, arguments=None, within=None):
        """Submits the syscall `name` and returns its value."""
        params = {"name": name, "arguments": arguments or {}}
        if within:
            params["within"] = within
        connection = self._take()
        try:
            answer = connection.request("call", params)
        except BaseException:
            # What comes next on it would be the answer to this.
            connection.close()
            raise
        self._give_back(connection)
        return outcome(answer)

    def close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self):
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Connection(self._path, self._plugin, self._timeout)

    def _give_back(self, connection):
        with self._lock:
            self._idle.append(connection)


def outcome(answer):
    """The value of an answer, or the error it is."""
    came = answer.get("outcome", {})
    if "done" in came:
        return came["done"].get("value")
    if "denied" in came:
        why = came["denied"].get("explanation") or "policy does not allow it"
        raise Denied("denied", why if isinstance(why, str) else json.dumps(why))
    if "needs_review" in came:
        waiting = came["needs_review"].get("approval")
        raise Denied("review", f"a person must say yes first ({waiting})")
    if "failed" in came:
        failed = came["failed"]
        raise KernelError(failed["code"], failed["what"], failed.get("retryable", False))
    raise KernelError("internal", "the kernel's answer has no outcome")


class _Connection:
    def __init__(self, path, plugin, timeout):
        self._numbers = itertools.count(1)
        self._socket = _connect(path, timeout)
        try:
            hello = {"name": plugin, "version": f"python-sdk {_version.VERSION}", "api": 1}
            self.request("handshake", hello)
        except BaseException:
            self.close()
            raise

    def close(self):
        self._socket.close()

    def request(self, method, params):
        number = next(self._numbers)
        message = {"id": number, "type": "request", "method": method, "params": params}
        self._send(json.dumps(message).encode())
        while True:
            answer = json.loads(self._receive())
            if answer.get("type") != "response" or answer.get("id") not in (0, number):
                continue
            if "error" in answer:
                error = answer["error"]
                raise KernelError(error["code"], error["message"], error.get("retryable", False))
            return answer.get("result")

    def _send(self, text):
        try:
            self._socket.sendall(struct.pack(">I", len(text)) + text)
        except OSError as error:
            raise KernelError("unreachable", str(error), True) from error

    def _receive(self):
        (length,) = struct.unpack(">I", self._exactly(4))
        if length > _LONGEST:
            raise KernelError("frame_too_long", f"a frame of {length} bytes")
        return self._exactly(length)

    def _exactly(self, count):
        parts = []
        while count:
            try:
                part = self._socket.recv(min(count, 1 << 20))
            except OSError as error:
                raise KernelError("unreachable", str(error), True) from error
            if not part:
                raise KernelError("unreachable", "the kernel ended the connection", True)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def _connect(path, timeout):
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout)
    # The path may be longer than an address takes; the directory's descriptor is not.
    directory = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY)
    try:
        stream.connect(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    except OSError as error:
        stream.close()
        raise KernelError("unreachable", f"the kernel's socket: {error}", True) from error
    finally:
        os.close(directory)
    return stream
