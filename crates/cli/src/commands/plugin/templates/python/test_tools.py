"""Tests without Airlock: the tools themselves, and a conversation with the server."""

import io
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "..", "bin")
sys.path.insert(0, BIN)

from server import serve  # noqa: E402
from tools import TOOLS, ToolError, count  # noqa: E402


def talk(*messages):
    """The answers to `messages`, by their ids."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    sink = io.BytesIO()
    serve("x", "0", TOOLS, io.BytesIO(lines.encode()), sink)
    answers = [json.loads(line) for line in sink.getvalue().splitlines()]
    return {one["id"]: one for one in answers}


def call(identity, name, arguments):
    parameters = {"name": name, "arguments": arguments}
    return {"id": identity, "method": "tools/call", "params": parameters}


class Tools(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(count("one two  three\n"), {"words": 3})
        self.assertEqual(count(""), {"words": 0})

    def test_a_text_that_is_too_long_is_refused(self):
        with self.assertRaises(ToolError):
            count("x" * 1_000_001)


class Conversation(unittest.TestCase):
    def test_a_client_finds_and_calls_the_tools(self):
        answers = talk(
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            call(3, "count", {"text": "one two"}),
        )
        self.assertEqual(answers[1]["result"]["protocolVersion"], "2025-06-18")
        self.assertEqual([one["name"] for one in answers[2]["result"]["tools"]], list(TOOLS))
        self.assertEqual(answers[3]["result"]["structuredContent"], {"words": 2})

    def test_what_cannot_be_done_is_said(self):
        answers = talk(
            call(1, "count", {"text": "x" * 1_000_001}),
            call(2, "count", {"wrong": 1}),
            call(3, "nothing", {}),
            {"id": 4, "method": "nothing"},
        )
        self.assertTrue(answers[1]["result"]["isError"])
        self.assertTrue(answers[2]["result"]["isError"])
        self.assertEqual(answers[3]["error"]["code"], -32602)
        self.assertEqual(answers[4]["error"]["code"], -32601)

    def test_the_program_itself_answers(self):
        lines = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
        program = os.path.join(BIN, "@NAME@")
        ended = subprocess.run(
            [sys.executable, program], input=lines.encode(), capture_output=True, timeout=30
        )
        self.assertEqual(json.loads(ended.stdout)["result"], {}, ended.stderr)


class Manifest(unittest.TestCase):
    def test_the_manifest_names_the_same_tools(self):
        with open(os.path.join(HERE, "..", "plugin.yaml"), encoding="utf-8") as file:
            text = file.read()
        for name, tool in TOOLS.items():
            self.assertIn(f"name: {name}\n", text)
            self.assertIn(f"summary: {tool['summary']}\n", text)


if __name__ == "__main__":
    unittest.main()
