"""The services of a plugin, for gRPC to call."""

import json
import logging
import queue
import threading
import traceback

from . import protocol
from .context import Cancelled, Failure
from .kernel import Kernel, KernelError
from .plugin import About

# Pieces of output a tool may be ahead of whoever reads them; then it waits.
_AHEAD = 16


class Services:
    """The methods of the services PluginLifecycle and Tool."""

    def __init__(self, plugin):
        self._plugin = plugin

    # PluginLifecycle

    def Init(self, request, context):
        about = About(
            request.name,
            request.version,
            json.loads(request.configuration_json or "null"),
            request.data_directory,
            request.sandbox_id,
        )
        self._plugin.start(about, Kernel(request.kernel_socket, request.name))
        return protocol.airlock.InitResponse()

    def Health(self, request, context):
        reason = self._plugin.health()
        return protocol.airlock.HealthResponse(well=reason is None, reason=reason or "")

    def Shutdown(self, request, context):
        self._plugin.stop()
        return protocol.airlock.ShutdownResponse()

    # Tool

    def Describe(self, request, context):
        described = [
            protocol.airlock.ToolDescription(
                name=tool.name,
                summary=tool.summary,
                schema_json=json.dumps(tool.schema),
                read_only=tool.read_only,
            )
            for tool in self._plugin.tools.values()
        ]
        return protocol.airlock.DescribeResponse(tools=described)

    def Execute(self, request, context):
        answer = protocol.airlock.ExecuteResponse
        pieces = queue.Queue(_AHEAD)
        cancelled = threading.Event()
        if not context.add_callback(cancelled.set):
            cancelled.set()

        def emit(text):
            # Waits while nobody reads, but not for somebody who is gone.
            while True:
                if cancelled.is_set():
                    raise Cancelled()
                try:
                    return pieces.put(answer(output=text), timeout=0.05)
                except queue.Full:
                    pass

        def work():
            last = self._run(request, emit, cancelled.is_set)
            while not cancelled.is_set():
                try:
                    return pieces.put(last, timeout=0.05)
                except queue.Full:
                    pass

        # The function runs in a thread of its own, so that its output leaves while it works.
        threading.Thread(target=work, daemon=True).start()
        while not cancelled.is_set():
            try:
                piece = pieces.get(timeout=0.05)
            except queue.Empty:
                continue
            yield piece
            if piece.WhichOneof("said") != "output":
                return

    def _run(self, request, emit, is_cancelled):
        answer = protocol.airlock.ExecuteResponse
        try:
            result = self._plugin.execute(request, emit, is_cancelled)
            return answer(result_json=json.dumps(result))
        except Cancelled:
            return answer(failure="the call was cancelled")
        except (Failure, KernelError) as failure:
            return answer(failure=str(failure))
        except Exception as error:
            logging.getLogger("airlock_plugin").error(traceback.format_exc())
            return answer(failure=f"{type(error).__name__}: {error}")
