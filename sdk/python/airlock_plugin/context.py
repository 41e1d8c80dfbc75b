"""What a tool is given beside its arguments."""

import logging
import os


class Failure(Exception):
    """A tool cannot do what it was asked. The text is for whoever asked."""


class Cancelled(Exception):
    """Nobody wants the result any more."""


class Context:
    """One call of a tool, and everything the tool may ask for."""

    def __init__(self, call, about, kernel, emit, is_cancelled):
        #: The action's id, as in the audit log.
        self.action = call.action
        #: The session, and its mode; None outside of one.
        self.session = call.session or None
        self.mode = call.mode or None
        #: Seconds the call may take.
        self.deadline = call.deadline_ms / 1000
        #: The plugin's own name and version, as its manifest has them.
        self.plugin = about.name
        self.version = about.version
        #: Its configuration, valid by the schema of its manifest.
        self.configuration = about.configuration
        #: Its own directory, which it may write.
        self.data = about.data
        #: The sandbox it runs in.
        self.sandbox = about.sandbox
        #: Its environment, as it was when the plugin started.
        self.environment = dict(os.environ)
        #: Takes records for the plugin's log.
        self.log = logging.getLogger(about.name or "plugin")
        self._kernel = kernel
        self._emit = emit
        self._is_cancelled = is_cancelled

    # Speaking while it runs

    def output(self, text):
        """Shows a piece of output to whoever waits."""
        self.check()
        if text:
            self._emit(text)

    @property
    def cancelled(self):
        """Whether nobody wants the result any more."""
        return self._is_cancelled()

    def check(self):
        """Raises Cancelled if nobody wants the result any more."""
        if self.cancelled:
            raise Cancelled()

    # Asking the kernel

    def call(self, name, **arguments):
        """Submits any syscall, as part of this action."""
        self.check()
        return self._kernel.call(name, arguments, within=self.action)

    def run(self, *command, **options):
        """Runs a program in a sandbox, against the stage: `run("cargo", "test", timeout="2m")`."""
        return self.call("exec.run", command=list(command), **options)

    def read(self, path, **options):
        """The text of a file of the workspace."""
        value = self.call("fs.read", path=path, **options)
        if "text" not in value:
            raise Failure(f"`{path}` is no text")
        return value["text"]

    def write(self, path, text, **options):
        """Creates or replaces a file in the stage."""
        return self.call("fs.write", path=path, text=text, **options)

    def list(self, path=None, **options):
        """The entries of a directory of the workspace."""
        if path is not None:
            options["path"] = path
        return self.call("fs.list", **options)["entries"]

    def exists(self, path):
        """Whether something is there."""
        return bool(self.call("fs.exists", path=path)["exists"])
