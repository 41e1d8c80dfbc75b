#!/usr/bin/python3
"""A gRPC plugin for tests, written with the SDK: the same tools as the MCP server beside it."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))
from airlock_plugin import KernelError, Plugin

plugin = Plugin()
ANY = {"type": "object"}


@plugin.tool("ask", schema=ANY)
def ask(context):
    try:
        return {"read": context.read("a.txt")}
    except KernelError as error:
        return {"code": error.code, "message": error.message}
    except Exception as error:
        return {"error": str(error)}


@plugin.tool("hit", schema=ANY)
def hit(context, id):
    with open("hits", "ab", buffering=0) as hits:
        hits.write((id + "\n").encode())
    return {"id": id}


@plugin.tool("settings", schema=ANY)
def settings(context):
    given = context.configuration or {}
    secret = given.get("api_key", "")
    return {
        "limit": given.get("limit"),
        "said": secret,
        "length": len(secret),
        "in_environment": any(secret and secret in value for value in os.environ.values()),
    }


if __name__ == "__main__":
    plugin.serve()
