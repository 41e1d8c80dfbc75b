"""Messages and services of the plugin protocol, made from its compiled definitions.

`protocol.binpb` is what `proto/` in Airlock's repository compiles to, so nothing here is generated
code and any version of the protobuf runtime will do.
"""

import pathlib

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_pool = descriptor_pool.DescriptorPool()
_set = descriptor_pb2.FileDescriptorSet.FromString(
    pathlib.Path(__file__).with_name("protocol.binpb").read_bytes()
)
for _file in _set.file:
    _pool.Add(_file)


def message(name):
    """The class of the message with this full name."""
    descriptor = _pool.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)


def enum(name):
    """The numbers of the enum with this full name, by their names."""
    return {value.name: value.number for value in _pool.FindEnumTypeByName(name).values}


class _Messages:
    """Message classes of a package, as attributes."""

    def __init__(self, package):
        self._package = package

    def __getattr__(self, name):
        try:
            made = message(f"{self._package}.{name}")
        except KeyError:
            raise AttributeError(name) from None
        setattr(self, name, made)
        return made


airlock = _Messages("airlock.plugin.v1")
goplugin = _Messages("plugin")
health = _Messages("grpc.health.v1")


def handler(service, implementation):
    """Serves `service` by the methods of `implementation` that have the names of its own."""
    descriptor = _pool.FindServiceByName(service)
    # The descriptors of Python do not say which methods stream, the definitions do.
    definition = descriptor_pb2.ServiceDescriptorProto()
    descriptor.CopyToProto(definition)
    handlers = {}
    for method, defined in zip(descriptor.methods, definition.method):
        function = getattr(implementation, method.name, None)
        if function is None:
            continue
        kind = (
            ("stream" if defined.client_streaming else "unary")
            + "_"
            + ("stream" if defined.server_streaming else "unary")
        )
        make = getattr(grpc, f"{kind}_rpc_method_handler")
        handlers[method.name] = make(
            function,
            request_deserializer=message(method.input_type.full_name).FromString,
            response_serializer=lambda answer: answer.SerializeToString(),
        )
    return grpc.method_handlers_generic_handler(service, handlers)
