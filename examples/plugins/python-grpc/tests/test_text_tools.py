"""The tools without Airlock: `python3 -m unittest discover -s tests`."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The SDK of this repository, if none lies in `lib/`.
sys.path.append(str(ROOT.parent.parent.parent / "sdk" / "python"))


def load():
    loader = importlib.machinery.SourceFileLoader("text_tools", str(ROOT / "bin" / "text-tools"))
    spec = importlib.util.spec_from_loader("text_tools", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module.plugin


class TextTools(unittest.TestCase):
    def test_words_lines_and_characters_are_counted(self):
        from airlock_plugin.testing import call

        counted = call(load(), "count", {"text": "a b\nc\n"}).value
        self.assertEqual(counted, {"lines": 2, "words": 3, "characters": 6})

    def test_as_many_lines_are_shown_as_the_configuration_says(self):
        from airlock_plugin.testing import FakeKernel, call

        kernel = FakeKernel({"fs.read": lambda path: {"text": "aa\nb\ncccc\n"}})
        called = call(
            load(), "longest_lines", {"path": "x"}, kernel=kernel, configuration={"longest": 2}
        )
        self.assertEqual((called.value, called.output), ({"shown": 2}, "cccc\naa\n"))

    def test_an_empty_file_is_a_failure(self):
        from airlock_plugin import Failure
        from airlock_plugin.testing import FakeKernel, call

        kernel = FakeKernel({"fs.read": lambda path: {"text": ""}})
        with self.assertRaises(Failure):
            call(load(), "longest_lines", {"path": "x"}, kernel=kernel)


if __name__ == "__main__":
    unittest.main()
