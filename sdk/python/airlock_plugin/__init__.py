"""Write plugins for Airlock in Python.

    from airlock_plugin import Plugin

    plugin = Plugin()

    @plugin.tool("Count the words of a text", read_only=True)
    def count(context, text: str):
        return {"words": len(text.split())}

    if __name__ == "__main__":
        plugin.serve()

A tool gets a Context and the arguments of the call. What it returns is its result; an exception is
its failure. Everything it wants of the machine it asks of the kernel, which decides:
`context.read(...)`, `context.run(...)`. `airlock_plugin.testing` runs tools without a kernel.

Tests need nothing but Python; to be served, a plugin needs grpcio, protobuf and cryptography. One whose
manifest says `tls: false` under `execution` does without the last: then the private directory its
socket lies in is what keeps others out.
"""

from .context import Cancelled, Context, Failure
from .kernel import Denied, Kernel, KernelError
from .plugin import Plugin

__all__ = ["Cancelled", "Context", "Denied", "Failure", "Kernel", "KernelError", "Plugin"]
