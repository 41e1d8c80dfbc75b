#!/usr/bin/env python3
"""A client of the wire protocol, written from docs/protocol.md alone.

Standard library only; shares nothing with the crates. Run as

    client.py SCENARIO SOCKET [ARGUMENT...]

it plays one scenario against a running kernel and prints what came of it as one JSON object.
A scenario that does not go as the protocol says ends with a traceback and a code other than 0.
"""

import json
import socket
import struct
import sys


class Closed(Exception):
    """The kernel ended the connection; `error` says why, if it said so."""

    def __init__(self, error=None):
        super().__init__(error)
        self.error = error


class Answer(Exception):
    """A request was answered with an error."""

    def __init__(self, error):
        super().__init__(error)
        self.error = error


class Connection:
    def __init__(self, path, name="cli", api=1, greet=True):
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.settimeout(60)
        self.stream.connect(path)
        self.next = 1
        self.answers = {}
        self.events = []
        self.greeting = None
        if greet:
            hello = {"name": name, "version": "python", "api": api}
            self.greeting = self.call("handshake", hello)

    # Frames

    def send_frame(self, data):
        try:
            self.stream.sendall(struct.pack(">I", len(data)) + data)
        except BrokenPipeError:
            # The kernel ended the connection; its reason can still be read.
            raise Closed(self.end()) from None

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            try:
                more = self.stream.recv(count - len(data))
            except ConnectionError:
                raise Closed() from None
            if not more:
                raise Closed()
            data += more
        return data

    def read_frame(self):
        (length,) = struct.unpack(">I", self.read_exactly(4))
        return self.read_exactly(length)

    # Messages

    def send(self, method, params=None):
        number = self.next
        self.next += 1
        message = {"id": number, "type": "request", "method": method}
        if params is not None:
            message["params"] = params
        self.send_frame(json.dumps(message).encode())
        return number

    def receive(self):
        message = json.loads(self.read_frame().decode("utf-8"))
        if message["type"] == "event":
            self.events.append(message)
        elif message["type"] == "response":
            if message["id"] == 0:
                raise Closed(message["error"])
            self.answers[message["id"]] = message
        else:
            raise AssertionError(f"a kernel sends no {message['type']}")

    def answer(self, number):
        while number not in self.answers:
            self.receive()
        message = self.answers.pop(number)
        if "error" in message:
            raise Answer(message["error"])
        return message["result"]

    def call(self, method, params=None):
        return self.answer(self.send(method, params))

    def event(self):
        while not self.events:
            self.receive()
        return self.events.pop(0)

    def end(self):
        """Waits for the end of the connection and says why it came."""
        try:
            while True:
                self.receive()
        except Closed as closed:
            return closed.error


def refusal(path, **options):
    try:
        Connection(path, **options)
    except Closed as closed:
        return closed.error
    raise AssertionError("the connection was not refused")


# Scenarios


def handshake(path):
    connection = Connection(path)
    greeting = connection.greeting
    assert greeting["api"] == 1
    assert greeting["supported"]["oldest"] <= 1 <= greeting["supported"]["newest"]
    assert connection.call("ping") == "pong"
    return {"kernel": greeting["kernel"], "about": greeting["about"]}


def version(path):
    error = refusal(path, api=99)
    assert error["code"] == "unsupported_version", error
    assert error["retryable"] is False
    return error["details"]["supported"]


def name(path, wanted):
    return refusal(path, name=wanted)


def tools(path, front):
    connection = Connection(path, name=front)
    listed = [tool["name"] for tool in connection.call("tools.list")]
    shown = connection.call("tools.show", {"name": "fs.read"})
    assert shown["arguments"]["properties"]["path"], shown
    return {"tools": listed, "examples": shown["examples"]}


def call(path, front, tool, arguments):
    connection = Connection(path, name=front)
    params = {"name": tool, "arguments": json.loads(arguments)}
    return connection.call("call", params)


def methods(path):
    """Every method that is none, or is given what it does not take."""
    connection = Connection(path)
    codes = []
    for method, params in [
        ("nothing", None),
        ("call", None),
        ("call", {"name": "fs.read"}),
        ("call", ["fs.read", {"path": "README.md"}]),
        ("tools.show", ["fs.read"]),
        ("call", {"name": "fs.read", "arguments": {}, "uid": 0}),
        ("tools.show", {"name": "no.such.tool"}),
        ("status", {"x": 1}),
        ("cancel", {"id": "1"}),
        ("events.subscribe", {"after": -1}),
    ]:
        try:
            connection.call(method, params)
            raise AssertionError(f"{method} {params} was answered")
        except Answer as answer:
            codes.append(answer.error["code"])
    assert connection.call("ping") == "pong"
    return codes


def cancel(path, tool, arguments):
    """A call that takes long is taken back; others on the connection go on."""
    connection = Connection(path)
    slow = connection.send("call", {"name": tool, "arguments": json.loads(arguments)})
    assert connection.call("ping") == "pong"
    assert slow not in connection.answers, "it did not take long"
    assert connection.call("cancel", {"id": slow}) == {"cancelled": True}
    try:
        outcome = connection.answer(slow)["outcome"]
    except Answer as answer:
        outcome = {"error": answer.error["code"]}
    again = connection.call("cancel", {"id": slow})
    assert again == {"cancelled": False}
    return outcome


def events(path):
    connection = Connection(path)
    begun = connection.call("events.subscribe")["after"]
    params = {"name": "fs.exists", "arguments": {"path": "README.md"}}
    action = connection.call("call", params)["outcome"]["done"]["action"]
    seen = []
    while not any(e["params"].get("action") == action and e["params"]["stage"] == "outcome" for e in seen):
        seen.append(connection.event())
    numbers = [event["id"] for event in seen]
    assert numbers == sorted(set(numbers)) and numbers[0] > begun, numbers
    # Somebody who comes back names the last one they saw, and gets what they missed.
    back = Connection(path)
    back.call("events.subscribe", {"after": numbers[0]})
    again = [back.event()["id"] for _ in numbers[1:]]
    assert again == numbers[1:], (again, numbers)
    return {"events": len(numbers), "last": numbers[-1]}


def no_events(path, front):
    try:
        Connection(path, name=front).call("events.subscribe")
    except Answer as answer:
        return answer.error
    raise AssertionError("the log was followed")


def frames(path):
    """Each bad frame ends its connection with its reason, and no other connection."""
    bystander = Connection(path)
    said = {}
    for case, data in [
        ("too_long", struct.pack(">I", 2**31)),
        ("not_utf8", struct.pack(">I", 2) + b"\xff\xfe"),
        ("not_json", struct.pack(">I", 1) + b"{"),
        ("empty", struct.pack(">I", 0)),
        ("no_message", struct.pack(">I", 2) + b"[]"),
    ]:
        connection = Connection(path)
        connection.stream.sendall(data)
        said[case] = connection.end()["code"]
        assert bystander.call("ping") == "pong"
    connection = Connection(path)
    connection.stream.sendall(struct.pack(">I", 100) + b"{")
    connection.stream.shutdown(socket.SHUT_WR)
    said["cut"] = connection.end()["code"]
    connection = Connection(path, greet=False)
    connection.send("ping")
    said["no_handshake"] = connection.end()["code"]
    assert bystander.call("ping") == "pong"
    return said


SCENARIOS = {
    one.__name__: one
    for one in [handshake, version, name, tools, call, methods, cancel, events, no_events, frames]
}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]](*sys.argv[2:])))
