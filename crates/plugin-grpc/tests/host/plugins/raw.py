#!/usr/bin/python3
"""A plugin that serves whatever its first argument says, well or not."""

import os
import pathlib
import sys
import threading
import time
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lib"))

import grpc
from airlock_plugin import protocol

case = sys.argv[1]
airlock = protocol.airlock


class Health:
    def Check(self, request, context):
        return protocol.health.HealthCheckResponse(status=2 if case == "not-serving" else 1)


class Bytes:
    """A message of arbitrary bytes."""

    def __init__(self, data):
        self.data = data

    def SerializeToString(self):
        return self.data


GARBAGE = Bytes(b"\xff\xff\xff\xff\x0f\x01garbage")


class Lifecycle:
    def Init(self, request, context):
        if case == "init-garbage":
            return GARBAGE
        if case == "init-hangs":
            time.sleep(600)
        if case == "serve-unannounced":
            return airlock.InitResponse(serve_broker_id=9)
        return airlock.InitResponse()


class Tool:
    def Describe(self, request, context):
        if case == "describe-garbage":
            return GARBAGE
        if case == "describe-many":
            many = [airlock.ToolDescription(name=f"t{n}", schema_json="{}") for n in range(1000)]
            return airlock.DescribeResponse(tools=many)
        if case == "describe-huge":
            tool = airlock.ToolDescription(name="t", summary="x" * (5 << 20), schema_json="{}")
            return airlock.DescribeResponse(tools=[tool])
        if case == "describe-schema":
            return airlock.DescribeResponse(
                tools=[airlock.ToolDescription(name="t", schema_json="no")]
            )
        return airlock.DescribeResponse(
            tools=[airlock.ToolDescription(name="t", schema_json="{}")]
        )

    def Execute(self, request, context):
        if request.tool == "garbage":
            yield GARBAGE
        elif request.tool == "no-json":
            yield airlock.ExecuteResponse(result_json="{")
        elif request.tool == "nothing":
            yield airlock.ExecuteResponse()
        elif request.tool == "no-result":
            yield airlock.ExecuteResponse(output="half")
        elif request.tool == "huge":
            yield airlock.ExecuteResponse(result_json='"' + "x" * (5 << 20) + '"')
        elif request.tool == "abort":
            yield airlock.ExecuteResponse(output="half")
            context.abort(grpc.StatusCode.UNAVAILABLE, "no \x1b[2J more")
        elif request.tool == "empty-flood":
            while True:
                yield airlock.ExecuteResponse(output="")
        elif request.tool == "leave":
            # Ends every connection, this one among them.
            threading.Thread(target=server.stop, args=(0,)).start()
            time.sleep(600)
        elif request.tool == "twice":
            yield airlock.ExecuteResponse(result_json="1")
            yield airlock.ExecuteResponse(result_json="2")


class Channel:
    def GetIdentity(self, request, context):
        return airlock.Identity(id="bot-1", name="Bot")

    def Start(self, request, context):
        # Not after the loop: a stream that is cancelled early is never asked for more.
        context.add_callback(lambda: pathlib.Path("left").write_text("yes"))
        for number in range(3):
            yield airlock.Inbound(
                id=str(number),
                sender=airlock.Identity(id="u1", name="User"),
                conversation="room",
                text=f"message {number}",
                attachments=[airlock.Attachment(name="a", media_type="b", data=b"c")],
            )
        while context.is_active():
            time.sleep(0.05)

    def Send(self, request, context):
        return airlock.SendResponse(id=f"{request.conversation}/{request.text}/{request.reply_to}")

    def UpdatePresence(self, request, context):
        pathlib.Path("presence").write_text(f"{request.conversation}={request.presence}")
        return airlock.UpdatePresenceResponse()


class Provider:
    def ListModels(self, request, context):
        return airlock.ListModelsResponse(
            models=[airlock.Model(id="small", context_tokens=1000, tools=True)]
        )

    def Chat(self, request, context):
        for message in request.messages:
            yield airlock.ChatResponse(text=f"{message.role}:{message.text};")
        yield airlock.ChatResponse(
            tool_call=airlock.ChatToolCall(id="1", name="fs.read", arguments_json="{}")
        )
        if request.model == "endless":
            while True:
                yield airlock.ChatResponse(text="x" * 65536)
        if request.model != "silent":
            yield airlock.ChatResponse(
                finish=airlock.Finish(reason="tool_calls", input_tokens=3, output_tokens=4)
            )

    def Status(self, request, context):
        return airlock.StatusResponse(available=False, reason="no key")


server = grpc.server(
    futures.ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", 64 << 20)]
)
handlers = [protocol.handler("airlock.plugin.v1.Tool", Tool())]
if case != "no-health":
    handlers.append(protocol.handler("grpc.health.v1.Health", Health()))
if case != "no-lifecycle":
    handlers.append(protocol.handler("airlock.plugin.v1.PluginLifecycle", Lifecycle()))
if case != "no-channel":
    handlers.append(protocol.handler("airlock.plugin.v1.Channel", Channel()))
    handlers.append(protocol.handler("airlock.plugin.v1.Provider", Provider()))
server.add_generic_rpc_handlers(handlers)
path = os.environ["PLUGIN_UNIX_SOCKET_DIR"] + "/raw"
server.add_insecure_port("unix:" + path)
server.start()
print(f"1|1|unix|{path}|grpc", flush=True)
server.wait_for_termination()
