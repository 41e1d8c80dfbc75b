"""Tests without Airlock, and without grpcio."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "bin"), os.path.join(HERE, "..", "lib")]
# What is installed is read as a whole: nothing that only a test left behind belongs to it.
sys.dont_write_bytecode = True

from airlock_plugin import Denied, Failure  # noqa: E402
from airlock_plugin.testing import FakeKernel, call  # noqa: E402
from tools import plugin  # noqa: E402


class Tools(unittest.TestCase):
    def test_words_are_counted_without_asking_anybody(self):
        kernel = FakeKernel()
        self.assertEqual(
            call(plugin, "count", {"text": "one two  three\n"}, kernel=kernel).value, {"words": 3}
        )
        self.assertEqual(call(plugin, "count", {"text": ""}).value, {"words": 0})
        self.assertEqual(kernel.calls, [])

    def test_a_text_that_is_too_long_is_refused(self):
        with self.assertRaises(Failure):
            call(plugin, "count", {"text": "x" * 1_000_001})

    def test_a_file_is_read_by_the_kernel_or_not_at_all(self):
        with self.assertRaises(Denied):
            call(plugin, "count_file", {"path": "a.txt"})
        kernel = FakeKernel({"fs.read": lambda path: {"text": "a b"}})
        counted = call(plugin, "count_file", {"path": "a.txt"}, kernel=kernel)
        self.assertEqual(counted.value, {"words": 2})
        self.assertEqual(kernel.calls, [("fs.read", {"path": "a.txt"})])


class Manifest(unittest.TestCase):
    def test_the_manifest_names_the_same_tools(self):
        with open(os.path.join(HERE, "..", "plugin.yaml"), encoding="utf-8") as file:
            text = file.read()
        for tool in plugin.tools.values():
            self.assertIn(f"name: {tool.name}\n", text)
            self.assertIn(f"summary: {tool.summary}\n", text)


if __name__ == "__main__":
    unittest.main()
