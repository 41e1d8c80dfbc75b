"""The plugin's side of go-plugin's protocol: handshake, TLS, health, output, end."""

import base64
import collections
import io
import logging
import os
import secrets
import sys
import threading
from concurrent import futures

import grpc

from . import protocol
from .services import Services

_COOKIE = ("AIRLOCK_PLUGIN", "4e0c1d0f6f5b4d1fa9b35a8d1c7e2b90")
_CORE = 1
_VERSIONS = (1,)
# Calls that run side by side, and two streams that last.
_THREADS = 32 + 2
# Bytes of output that wait for Airlock to read them; more is dropped, the oldest first.
_WAITING = 256 * 1024
_MESSAGE = 4 * 1024 * 1024


def serve(plugin):
    """Serves `plugin` until Airlock ends it."""
    name, value = _COOKIE
    if os.environ.get(name) != value:
        sys.exit("This is a plugin for Airlock: install it with `airlock plugin install`.")
    end = threading.Event()
    output = _Output()
    server = grpc.server(
        futures.ThreadPoolExecutor(_THREADS),
        options=[
            ("grpc.max_receive_message_length", _MESSAGE),
            ("grpc.max_send_message_length", _MESSAGE),
        ],
    )
    services = Services(plugin)
    server.add_generic_rpc_handlers(
        [
            protocol.handler("airlock.plugin.v1.PluginLifecycle", services),
            protocol.handler("airlock.plugin.v1.Tool", services),
            protocol.handler("grpc.health.v1.Health", _Health()),
            protocol.handler("plugin.GRPCStdio", output),
            protocol.handler("plugin.GRPCController", _Controller(end)),
        ]
    )
    # A name nobody has, in the one directory that is shared with Airlock.
    path = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], f"plugin-{secrets.token_hex(8)}")
    credentials, certificate = _credentials()
    if credentials is None:
        server.add_insecure_port(f"unix:{path}")
    else:
        server.add_secure_port(f"unix:{path}", credentials)
    server.start()
    print(f"{_CORE}|{_version()}|unix|{path}|grpc|{certificate}", flush=True)
    output.take_over()
    end.wait()
    # Its stream would last as long as the server waits for it.
    output.close()
    server.stop(1).wait()


def _version():
    offered = os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(",")
    common = [version for version in _VERSIONS if str(version) in offered]
    # Airlock says what is wrong if there is none.
    return max(common or _VERSIONS)


class _Health:
    def Check(self, request, context):
        return protocol.health.HealthCheckResponse(status=1)


class _Controller:
    def __init__(self, end):
        self._end = end

    def Shutdown(self, request, context):
        self._end.set()
        return protocol.goplugin.Empty()


class _Output:
    """What is printed, on its way to Airlock."""

    def __init__(self):
        self._waiting = collections.deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False

    def close(self):
        """Lets the stream end once what waits has been read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take_over(self):
        """Makes standard output and error those that are streamed, and logs to them."""
        sys.stdout = io.TextIOWrapper(_Stream(self, 1), write_through=True)
        sys.stderr = io.TextIOWrapper(_Stream(self, 2), write_through=True)
        logging.basicConfig(stream=sys.stderr, level=logging.INFO)

    def add(self, channel, data):
        with self._changed:
            self._waiting.append((channel, data))
            self._bytes += len(data)
            while self._bytes > _WAITING:
                self._bytes -= len(self._waiting.popleft()[1])
            self._changed.notify()

    def StreamStdio(self, request, context):
        while context.is_active():
            with self._changed:
                if not self._waiting and not self._closed:
                    self._changed.wait(0.2)
                if not self._waiting:
                    if self._closed:
                        return
                    continue
                channel, data = self._waiting.popleft()
                self._bytes -= len(data)
            yield protocol.goplugin.StdioData(channel=channel, data=data)


class _Stream(io.RawIOBase):
    def __init__(self, output, channel):
        super().__init__()
        self._output = output
        self._channel = channel

    def writable(self):
        return True

    def write(self, data):
        self._output.add(self._channel, bytes(data))
        return len(data)


def _credentials():
    """TLS that takes Airlock's certificate only, and our own certificate; nothing if not asked for."""
    host = os.environ.get("PLUGIN_CLIENT_CERT")
    if not host:
        return None, ""
    try:
        from .certificate import make
    except ImportError:
        sys.exit(
            "securing the connection needs `cryptography`: apt-get install python3-cryptography, "
            "or write `tls: false` under `execution` in plugin.yaml"
        )
    key, certificate, der = make()
    credentials = grpc.ssl_server_credentials(
        [(key, certificate)], root_certificates=host.encode(), require_client_auth=True
    )
    return credentials, base64.b64encode(der).decode().rstrip("=")
