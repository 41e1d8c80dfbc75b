#!/usr/bin/python3
"""Tools for the tests of the host: good ones and bad ones."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
if "plain" in sys.argv:
    # As if `cryptography` were not installed.
    sys.modules["cryptography"] = None

from airlock_plugin import Failure, Plugin

plugin = Plugin()


def note(name, text):
    pathlib.Path(plugin.about.data, name).write_text(text)


@plugin.on_start
def start(plugin):
    if (plugin.about.configuration or {}).get("bad"):
        raise ValueError("bad configuration")


@plugin.on_stop
def stop(plugin):
    note("stopped", "yes")
    if "stubborn" in sys.argv:
        time.sleep(600)


@plugin.is_well
def well(plugin):
    return "tired" if pathlib.Path(plugin.about.data, "tired").exists() else None


@plugin.tool("Say the arguments again", read_only=True, schema={"type": "object"})
def echo(context, **arguments):
    return arguments


@plugin.tool("Say what is known of the call")
def about(context):
    return {
        "plugin": context.plugin,
        "version": context.version,
        "mode": context.mode,
        "session": context.session,
        "action": context.action,
        "sandbox": bool(context.sandbox),
        "cookie": "AIRLOCK_PLUGIN" in context.environment,
        "data": context.data,
    }


@plugin.tool("Say numbers")
def numbers(context, times: int):
    for number in range(times):
        context.output(f"{number}\n")
    return times


@plugin.tool("Print")
def prints(context):
    print("to standard output")
    print("to standard error", file=sys.stderr)
    context.log.info("to the log")


@plugin.tool("Fail")
def fail(context):
    raise Failure("there is no such ticket")


@plugin.tool("Raise")
def raises(context):
    return {}["absent"]


@plugin.tool("Wait until cancelled")
def wait(context):
    context.output("waiting")
    while not context.cancelled:
        time.sleep(0.01)
    note("cancelled", "yes")


@plugin.tool("Never answer")
def hang(context):
    time.sleep(600)


@plugin.tool("Speak without end")
def flood(context):
    while True:
        context.output("x" * 4096)


@plugin.tool("Die")
def die(context, after: int = 0):
    for number in range(after):
        context.output(f"{number}\n")
    time.sleep(0.2)
    os._exit(7)


@plugin.tool("Return what is no JSON")
def strange(context):
    return {1, 2}


@plugin.tool("Leave a process behind")
def fork(context, mark: str):
    subprocess.Popen(["sleep", mark], start_new_session=True)


@plugin.tool("Take memory")
def memory(context):
    kept = []
    while True:
        kept.append(bytearray(8 << 20))


@plugin.tool("Take disk")
def disk(context):
    number = 0
    while True:
        number += 1
        pathlib.Path(context.data, f"f{number}").write_bytes(b"x" * 1_000_000)


@plugin.tool("Take processes")
def pids(context, mark: str):
    while True:
        subprocess.Popen(["sleep", mark])


if __name__ == "__main__":
    plugin.serve()
