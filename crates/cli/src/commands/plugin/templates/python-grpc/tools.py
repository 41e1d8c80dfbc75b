"""The tools. The annotations of their arguments are the schemas."""

from airlock_plugin import Failure, Plugin

plugin = Plugin()


def words(text):
    if len(text) > 1_000_000:
        raise Failure("the text is too long")
    return {"words": len(text.split())}


@plugin.tool("count the words of a text", read_only=True)
def count(context, text: str):
    return words(text)


@plugin.tool("count the words of a file", read_only=True)
def count_file(context, path: str):
    # The kernel decides whether it may be read.
    return words(context.read(path))
