"""A plugin: its tools, and how each is called."""

import dataclasses
import inspect
import json
import sys
import typing

from .context import Context, Failure


@dataclasses.dataclass
class Tool:
    """One tool."""

    name: str
    summary: str
    schema: dict
    read_only: bool
    function: typing.Callable


@dataclasses.dataclass
class About:
    """What Airlock told the plugin about itself."""

    name: str = ""
    version: str = ""
    configuration: typing.Any = None
    data: str = ""
    sandbox: str = ""


class Plugin:
    """Collects tools and serves them."""

    def __init__(self):
        self.tools = {}
        self.about = About()
        self.kernel = None
        self._on_start = []
        self._on_stop = []
        self._is_well = None

    # Describing

    def tool(self, summary, *, name=None, schema=None, read_only=False):
        """Makes a function a tool. Without a schema, its annotations are one."""

        def register(function):
            made = Tool(
                name or function.__name__,
                summary,
                schema if schema is not None else schema_of(function),
                read_only,
                function,
            )
            if made.name in self.tools:
                raise ValueError(f"there are two tools called {made.name}")
            self.tools[made.name] = made
            return function

        return register

    def on_start(self, function):
        """Calls `function(plugin)` once the configuration is known. An exception is a refusal."""
        self._on_start.append(function)
        return function

    def on_stop(self, function):
        """Calls `function(plugin)` before the plugin ends."""
        self._on_stop.append(function)
        return function

    def is_well(self, function):
        """Asks `function(plugin)` for health: None if it is well, else why not."""
        self._is_well = function
        return function

    # Running

    def serve(self):
        """Serves the plugin to Airlock until it is told to end."""
        try:
            from .server import serve
        except ImportError as error:
            sys.exit(
                f"A plugin in Python needs grpcio and protobuf ({error}): "
                "`apt-get install python3-grpcio python3-protobuf`."
            )
        serve(self)

    def start(self, about, kernel):
        self.about = about
        self.kernel = kernel
        for function in self._on_start:
            function(self)

    def stop(self):
        for function in self._on_stop:
            function(self)

    def health(self):
        return self._is_well(self) if self._is_well else None

    def execute(self, call, emit, is_cancelled, kernel=None):
        """Runs one call to its end and returns the result."""
        tool = self.tools.get(call.tool)
        if tool is None:
            raise Failure(f"there is no tool `{call.tool}`")
        context = Context(call, self.about, kernel or self.kernel, emit, is_cancelled)
        return tool.function(context, **json.loads(call.arguments_json))


_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def schema_of(function):
    """The JSON Schema of a function's arguments, but for its first, the context."""
    hints = typing.get_type_hints(function)
    properties, required = {}, []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"`{parameter.name}` of {function.__name__} has no schema; give one")
        properties[parameter.name] = _schema(hints.get(parameter.name, typing.Any))
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _schema(hint):
    if hint is typing.Any:
        return {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is list or origin is list:
        return {"type": "array", "items": _schema(arguments[0]) if arguments else {}}
    if origin is dict:
        return {"type": "object"}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is typing.Union and type(None) in arguments and len(arguments) == 2:
        return _schema(next(each for each in arguments if each is not type(None)))
    raise TypeError(f"{hint} has no schema here; give the tool one")
