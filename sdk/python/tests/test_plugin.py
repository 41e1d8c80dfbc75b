"""The SDK without Airlock."""

import json
import os
import pathlib
import socket
import struct
import sys
import tempfile
import threading
import typing
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from airlock_plugin import Cancelled, Denied, Failure, Kernel, KernelError, Plugin
from airlock_plugin.plugin import schema_of
from airlock_plugin.testing import FakeKernel, call


def sample():
    plugin = Plugin()

    @plugin.tool("Count the words of a file", read_only=True)
    def count(context, path: str, limit: int = 10):
        words = len(context.read(path).split())
        if words > limit:
            raise Failure(f"more than {limit} words")
        return {"words": words}

    @plugin.tool("Say a number again and again")
    def repeat(context, times: int):
        for number in range(times):
            context.output(f"{number}\n")
        return times

    @plugin.tool("Say where it is called")
    def where(context):
        return [context.plugin, context.mode, context.session, context.sandbox, context.configuration]

    return plugin


class Tools(unittest.TestCase):
    def test_a_tool_asks_the_kernel_and_answers(self):
        kernel = FakeKernel({"fs.read": lambda path: {"text": "one two"}})
        called = call(sample(), "count", {"path": "a"}, kernel=kernel)
        self.assertEqual(called.value, {"words": 2})
        self.assertEqual(kernel.calls, [("fs.read", {"path": "a"})])

    def test_what_the_kernel_refuses_and_what_the_tool_refuses_are_failures(self):
        with self.assertRaises(Denied):
            call(sample(), "count", {"path": "a"})
        kernel = FakeKernel({"fs.read": lambda path: {"text": "one two"}})
        with self.assertRaisesRegex(Failure, "more than 1 words"):
            call(sample(), "count", {"path": "a", "limit": 1}, kernel=kernel)
        with self.assertRaisesRegex(Failure, "no tool"):
            call(sample(), "absent")
        binary = FakeKernel({"fs.read": lambda path: {"binary": True}})
        with self.assertRaisesRegex(Failure, "no text"):
            call(sample(), "count", {"path": "a"}, kernel=binary)

    def test_output_is_streamed_until_nobody_wants_it(self):
        self.assertEqual(call(sample(), "repeat", {"times": 3}).output, "0\n1\n2\n")
        with self.assertRaises(Cancelled):
            call(sample(), "repeat", {"times": 3}, cancel_after=1)

    def test_a_tool_knows_where_it_is_called(self):
        called = call(sample(), "where", mode="plan", session="s", configuration={"a": 1})
        self.assertEqual(called.value, ["plugin-under-test", "plan", "s", "sandbox", {"a": 1}])

    def test_two_tools_of_one_name_are_refused(self):
        plugin = sample()
        with self.assertRaises(ValueError):
            plugin.tool("Again", name="count")(lambda context: None)


class Schemas(unittest.TestCase):
    def test_annotations_are_a_schema(self):
        def tool(
            context,
            a: str,
            b: typing.List[int],
            c: typing.Optional[bool] = None,
            d: typing.Literal["x", "y"] = "x",
            e: dict = None,
            f=None,
        ):
            pass

        schema = schema_of(tool)
        self.assertEqual(schema["required"], ["a", "b"])
        self.assertFalse(schema["additionalProperties"])
        self.assertEqual(
            schema["properties"],
            {
                "a": {"type": "string"},
                "b": {"type": "array", "items": {"type": "integer"}},
                "c": {"type": "boolean"},
                "d": {"enum": ["x", "y"]},
                "e": {"type": "object"},
                "f": {},
            },
        )

    def test_what_has_no_schema_says_so(self):
        def bytes_tool(context, a: bytes):
            pass

        def star_tool(context, **rest):
            pass

        for tool in (bytes_tool, star_tool):
            with self.assertRaises(TypeError):
                schema_of(tool)


class Served(threading.Thread):
    """A kernel that answers each request from a list, on a socket."""

    def __init__(self, directory, answers):
        super().__init__(daemon=True)
        self.path = os.path.join(directory, "kernel.sock")
        self.answers = answers
        self.seen = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.start()

    def run(self):
        while True:
            stream, _ = self.listener.accept()
            with stream:
                while True:
                    header = stream.recv(4, socket.MSG_WAITALL)
                    if len(header) < 4:
                        break
                    (length,) = struct.unpack(">I", header)
                    request = json.loads(stream.recv(length, socket.MSG_WAITALL))
                    self.seen.append((request["method"], request["params"]))
                    part = {"result": {}} if request["method"] == "handshake" else self.answers.pop(0)
                    if part is None:
                        break
                    answer = json.dumps({"id": request["id"], "type": "response", **part}).encode()
                    stream.sendall(struct.pack(">I", len(answer)) + answer)


class Wire(unittest.TestCase):
    def test_each_outcome_is_a_value_or_its_own_error(self):
        def came(outcome):
            return {"result": {"outcome": outcome}}

        answers = [
            came({"done": {"action": "a", "value": {"text": "x"}}}),
            came({"denied": {"explanation": "rule 7"}}),
            came({"needs_review": {"approval": "b"}}),
            came({"failed": {"code": "io", "what": "gone", "retryable": True}}),
            {"error": {"code": "busy", "message": "later", "retryable": True}},
            None,
        ]
        with tempfile.TemporaryDirectory() as directory:
            served = Served(directory, answers)
            kernel = Kernel(served.path, "tried", timeout=30)
            self.assertEqual(kernel.call("fs.read", {"path": "p"}, within="w"), {"text": "x"})
            with self.assertRaisesRegex(Denied, "rule 7"):
                kernel.call("fs.read")
            with self.assertRaises(Denied) as review:
                kernel.call("fs.read")
            self.assertEqual(review.exception.code, "review")
            for code in ("io", "busy", "unreachable"):
                with self.assertRaises(KernelError) as failed:
                    kernel.call("fs.read")
                self.assertEqual((failed.exception.code, failed.exception.retryable), (code, True))
            self.assertEqual(served.seen[0][1]["name"], "tried")
            calls = [params for method, params in served.seen if method == "call"]
            self.assertEqual(calls[0], {"name": "fs.read", "arguments": {"path": "p"}, "within": "w"})
            self.assertEqual(calls[1], {"name": "fs.read", "arguments": {}})

    def test_no_kernel_is_an_error_of_its_own(self):
        with tempfile.TemporaryDirectory() as directory:
            with self.assertRaises(KernelError) as failed:
                Kernel(os.path.join(directory, "kernel.sock"), "tried").call("fs.read")
            self.assertEqual(failed.exception.code, "unreachable")


if __name__ == "__main__":
    unittest.main()
