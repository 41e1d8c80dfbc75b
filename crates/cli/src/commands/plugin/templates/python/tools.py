"""The tools. Each takes its arguments by name and returns something that JSON can say."""


class ToolError(Exception):
    """What went wrong, for whoever called."""


def count(text):
    if len(text) > 1_000_000:
        raise ToolError("the text is too long")
    return {"words": len(text.split())}


TOOLS = {
    "count": {
        "summary": "count the words of a text",
        "schema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "the text"}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "read_only": True,
        "function": count,
    },
}
