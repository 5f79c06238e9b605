"""The kubelet's socket: whether it is a new one, and the registration of a resource there.

Source: k8s.io/kubelet, pkg/apis/deviceplugin/v1beta1/api.proto, service Registration.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from shim.node.plugin import messages
from shim.node.plugin.endpoint import options

if TYPE_CHECKING:
    from shim.node.plugin.endpoint import Common

DIRECTORY = "/var/lib/kubelet/device-plugins"
_SOCKET = "kubelet.sock"
_SECONDS = 5.0  # for an answer
# gRPC for Python sends the path of a socket as the authority, which servers in Go refuse
_OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.enable_retries", 0)]

Identity = tuple[int, int, int]


def identity(directory: str) -> Identity | None:
    """What tells one start of the kubelet from the next: its socket; None where there is none."""
    try:
        status = os.lstat(f"{directory}/{_SOCKET}")
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_ctime_ns) if stat.S_ISSOCK(status.st_mode) else None


def register(common: Common, resource: str, endpoint: str) -> str:
    """Register a resource.

    Arguments:
        common: what the endpoints share.
        resource: its name.
        endpoint: the name of its socket in the kubelet's directory.
    Returns:
        "" when it is registered, else why not.
    """
    grpc, classes = common.grpc, common.messages
    request = classes["RegisterRequest"](
        version=messages.VERSION, endpoint=endpoint, resource_name=resource, options=options(classes)
    )
    with grpc.insecure_channel(f"unix:{common.directory}/{_SOCKET}", _OPTIONS) as channel:
        call = channel.unary_unary(
            messages.REGISTER, classes["RegisterRequest"].SerializeToString, classes["Empty"].FromString
        )
        try:
            call(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return ""
