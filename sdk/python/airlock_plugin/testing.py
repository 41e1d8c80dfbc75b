"""Runs tools without Airlock.

    from airlock_plugin.testing import FakeKernel, call

    kernel = FakeKernel({"fs.read": lambda path: {"text": "hello"}})
    assert call(plugin, "count", {"path": "x"}, kernel=kernel).value == {"words": 1}
    assert kernel.calls == [("fs.read", {"path": "x"})]
"""

import dataclasses
import json
import types
import typing

from .kernel import Denied
from .plugin import About


class FakeKernel:
    """Answers from functions, one a syscall; every other one is denied."""

    def __init__(self, answers=None):
        self.answers = dict(answers or {})
        self.calls = []

    def call(self, name, arguments=None, within=None):
        arguments = dict(arguments or {})
        self.calls.append((name, arguments))
        if name not in self.answers:
            raise Denied("denied", f"this test does not allow {name}")
        return self.answers[name](**arguments)


@dataclasses.dataclass
class Called:
    """What came of a call."""

    value: typing.Any
    output: str


def call(
    plugin,
    tool,
    arguments=None,
    *,
    kernel=None,
    mode=None,
    session=None,
    configuration=None,
    cancel_after=None,
):
    """Calls a tool as Airlock would. Failures are raised. `cancel_after`: pieces of output after
    which nobody wants the rest."""
    about = About("plugin-under-test", "0.0.0", configuration, "/nonexistent", "sandbox")
    kernel = kernel or FakeKernel()
    plugin.start(about, kernel)
    request = types.SimpleNamespace(
        action="action",
        tool=tool,
        arguments_json=json.dumps(arguments or {}),
        session=session or "",
        mode=mode or "",
        deadline_ms=60_000,
    )
    pieces = []

    def is_cancelled():
        return cancel_after is not None and len(pieces) >= cancel_after

    value = plugin.execute(request, pieces.append, is_cancelled, kernel)
    # As it would arrive: a result that is no JSON is a failure here too.
    return Called(json.loads(json.dumps(value)), "".join(pieces))
