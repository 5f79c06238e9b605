"""The kubelet's API for device plugins, v1beta1, as data: messages, fields with their numbers, and methods.

Modules that protoc generates work with a range of versions of protobuf only; descriptors that are made from a table
work with each, from 3.21 (Debian 12) on.

Source: k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1/api.proto. cdi_devices: since Kubernetes 1.28; the rest: 1.20.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

PACKAGE = VERSION = "v1beta1"
REGISTER = f"/{PACKAGE}.Registration/Register"
SERVICE = f"{PACKAGE}.DevicePlugin"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
LONGEST_ID = 63  # characters of Device.ID, by the comment there

_STRINGS = "map"  # map<string, string>
# message -> (field, number, type: a scalar, "map", or a message; a * behind it: repeated)
MESSAGES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "Empty": (),
    "DevicePluginOptions": (
        ("pre_start_required", 1, "bool"),
        ("get_preferred_allocation_available", 2, "bool"),
    ),
    "RegisterRequest": (
        ("version", 1, "string"),
        ("endpoint", 2, "string"),
        ("resource_name", 3, "string"),
        ("options", 4, "DevicePluginOptions"),
    ),
    "NUMANode": (("ID", 1, "int64"),),
    "TopologyInfo": (("nodes", 1, "NUMANode*"),),
    "Device": (("ID", 1, "string"), ("health", 2, "string"), ("topology", 3, "TopologyInfo")),
    "ListAndWatchResponse": (("devices", 1, "Device*"),),
    "PreStartContainerRequest": (("devices_ids", 1, "string*"),),
    "PreStartContainerResponse": (),
    "ContainerPreferredAllocationRequest": (
        ("available_deviceIDs", 1, "string*"),
        ("must_include_deviceIDs", 2, "string*"),
        ("allocation_size", 3, "int32"),
    ),
    "PreferredAllocationRequest": (("container_requests", 1, "ContainerPreferredAllocationRequest*"),),
    "ContainerPreferredAllocationResponse": (("deviceIDs", 1, "string*"),),
    "PreferredAllocationResponse": (("container_responses", 1, "ContainerPreferredAllocationResponse*"),),
    "ContainerAllocateRequest": (("devices_ids", 1, "string*"),),
    "AllocateRequest": (("container_requests", 1, "ContainerAllocateRequest*"),),
    "Mount": (("container_path", 1, "string"), ("host_path", 2, "string"), ("read_only", 3, "bool")),
    "DeviceSpec": (("container_path", 1, "string"), ("host_path", 2, "string"), ("permissions", 3, "string")),
    "CDIDevice": (("name", 1, "string"),),
    "ContainerAllocateResponse": (
        ("envs", 1, _STRINGS),
        ("mounts", 2, "Mount*"),
        ("devices", 3, "DeviceSpec*"),
        ("annotations", 4, _STRINGS),
        ("cdi_devices", 5, "CDIDevice*"),
    ),
    "AllocateResponse": (("container_responses", 1, "ContainerAllocateResponse*"),),
}
# method of the plugin's service -> request, response; a * behind it: a stream
METHODS = {
    "GetDevicePluginOptions": ("Empty", "DevicePluginOptions"),
    "ListAndWatch": ("Empty", "ListAndWatchResponse*"),
    "GetPreferredAllocation": ("PreferredAllocationRequest", "PreferredAllocationResponse"),
    "Allocate": ("AllocateRequest", "AllocateResponse"),
    "PreStartContainer": ("PreStartContainerRequest", "PreStartContainerResponse"),
}


class Messages:
    """The classes of the messages, by name: `Messages()["Device"](ID="0")`.

    `shim.node.plugin.library.load` must have been called.
    """

    def __init__(self) -> None:
        descriptor_pb2 = import_module("google.protobuf.descriptor_pb2")
        pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
        factory = import_module("google.protobuf.message_factory")
        pool.AddSerializedFile(_file(descriptor_pb2).SerializeToString())
        if hasattr(factory, "GetMessageClass"):  # protobuf 4.22
            make = factory.GetMessageClass
        else:
            make = factory.MessageFactory(pool).GetPrototype
        self._classes = {name: make(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}

    def __getitem__(self, name: str) -> Any:
        """The class of a message. Raises KeyError."""
        return self._classes[name]


def _file(descriptor_pb2: Any) -> Any:
    field_types = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "string": field_types.TYPE_STRING,
        "bool": field_types.TYPE_BOOL,
        "int32": field_types.TYPE_INT32,
        "int64": field_types.TYPE_INT64,
    }
    file = descriptor_pb2.FileDescriptorProto(name="shim/deviceplugin.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, form in fields:
            kind = form.rstrip("*")
            is_many = form != kind or kind == _STRINGS
            label = field_types.LABEL_REPEATED if is_many else field_types.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, label=label)
            if kind in scalars:
                added.type = scalars[kind]
                continue
            added.type = field_types.TYPE_MESSAGE
            added.type_name = f".{PACKAGE}.{kind}"
            if kind == _STRINGS:
                # a map is a list of entries: https://protobuf.dev/programming-guides/encoding/#maps
                entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
                entry.options.map_entry = True
                for member, index in (("key", 1), ("value", 2)):
                    entry.field.add(
                        name=member, number=index, type=field_types.TYPE_STRING, label=field_types.LABEL_OPTIONAL
                    )
                added.type_name = f".{PACKAGE}.{name}.{entry.name}"
    return file
