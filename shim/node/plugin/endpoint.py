"""A resource as a gRPC service on a socket in the kubelet's directory.

The socket is bound under a name of its own and renamed, so that the kubelet's name for it always leads to a service:
one that a killed process left behind is replaced at once, and gRPC, which unlinks the path of a server that ends,
never unlinks the socket of the next one.
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shim.base.findings import CdiError, Finding
from shim.base.paths import reason
from shim.host import sockets
from shim.node.plugin import allocation, messages, preferred
from shim.node.plugin.allocation import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shim.node.plugin.journal import Journal
    from shim.node.plugin.metrics import Metrics
    from shim.node.plugin.snapshot import ResourceState

_LONGEST_PATH = 107  # bytes: sun_path of unix(7), without the NUL
_THREADS = 8  # for each resource; the kubelet's stream takes one as long as it lasts
_DIGEST = 10
_END = 2.0  # seconds for calls that are being answered


@dataclass(frozen=True)
class Common:
    """What the endpoints of a process share.

    Attributes:
        grpc: the module.
        messages: the classes of messages.
        directory: of the kubelet's sockets.
        prefix: of the annotation's key.
        form: the form of the answers now.
        journal: of the process.
        metrics: of the process.
    """

    grpc: Any
    messages: messages.Messages
    directory: str
    prefix: str
    form: Callable[[], str]
    journal: Journal
    metrics: Metrics


def socket_name(resource: str, directory: str) -> str:
    """The name of a resource's socket in a directory; a long one is cut, and its digest keeps it apart.

    Raises CdiError: PLUGIN_SOCKET, where no name is short enough.
    """
    name = f"shim-{resource.replace('/', '_')}"
    room = _LONGEST_PATH - len(os.fsencode(directory)) - len("/..new") - len(".sock")
    if len(name) > room:
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
        name = f"{name[: room - _DIGEST - 1]}-{digest}"
        if room < len("shim-") + _DIGEST + 1:
            text = f"its path is too long: that of a socket has at most {_LONGEST_PATH} bytes"
            raise CdiError([Finding("PLUGIN_SOCKET", text, "name it by a shorter path", path=directory)])
    return f"{name}.sock"


class Endpoint:
    """The service of a resource.

    Arguments:
        state: the resource now.
        common: what it shares with the others.

    Attributes:
        name: of the socket, in the kubelet's directory.

    Raises CdiError: PLUGIN_SOCKET.
    """

    def __init__(self, state: ResourceState, common: Common) -> None:
        self.resource = state.resource.name
        self.name = socket_name(self.resource, common.directory)
        self._common = common
        self._path = f"{common.directory}/{self.name}"
        self._condition = threading.Condition()
        self._state = state
        self._list = self._listed(state)
        self._streams = 0
        self._generation = 0  # of the server: streams of an earlier one end
        self._server: Any = None
        self._identity: tuple[int, int] | None = None

    @property
    def state(self) -> ResourceState:
        """The resource as it was updated last."""
        return self._state

    @property
    def is_followed(self) -> bool:
        """Whether the kubelet follows the list of devices."""
        return self._streams > 0

    def start(self) -> None:
        """Listen; again where the socket was removed. Raises CdiError: PLUGIN_SOCKET, PLUGIN_RUNNING."""
        self.stop()
        grpc = self._common.grpc
        try:
            sockets.connect(self._path).close()
        except OSError:
            pass  # nothing is there, or nothing listens
        else:
            text = f"another process serves {self.resource} already"
            raise CdiError([Finding("PLUGIN_RUNNING", text, path=self._path)])
        server = grpc.server(futures.ThreadPoolExecutor(_THREADS, f"shim-{self.resource}"))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(messages.SERVICE, self._handlers())])
        fresh = f"{self._common.directory}/.{self.name}.new"
        try:
            if not server.add_insecure_port(f"unix:{fresh}"):
                raise OSError("gRPC cannot listen")
            server.start()
            os.rename(fresh, self._path)
            status = os.lstat(self._path)
        except (OSError, RuntimeError) as error:  # RuntimeError: of add_insecure_port, from grpcio 1.60 on
            server.stop(None)
            text = f"nothing can listen there: {reason(error) if isinstance(error, OSError) else error}"
            raise CdiError([Finding("PLUGIN_SOCKET", text, path=self._path)]) from None
        self._server, self._identity = server, (status.st_dev, status.st_ino)

    def is_there(self) -> bool:
        """Whether the socket still is in the kubelet's directory: a kubelet that starts empties it."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def stop(self) -> None:
        """End all calls, and remove the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        with self._condition:
            self._generation += 1
            self._condition.notify_all()
        if self.is_there():
            os.unlink(self._path)
        server.stop(_END).wait(_END + 1)

    def update(self, state: ResourceState) -> bool:
        """Take in the resource as it is now; the kubelet is sent a list where that has changed. Returns whether."""
        listed = self._listed(state)
        with self._condition:
            self._state = state
            if listed == self._list:
                return False
            self._list = listed
            self._condition.notify_all()
            return True

    def _handlers(self) -> dict[str, Any]:
        grpc, classes = self._common.grpc, self._common.messages
        methods: dict[str, Callable[[Any, Any], Any]] = {
            "GetDevicePluginOptions": lambda request, context: options(classes),  # noqa: ARG005 - gRPC's form
            "PreStartContainer": lambda request, context: classes["PreStartContainerResponse"](),  # noqa: ARG005 - as above
            "Allocate": self._allocate,
            "GetPreferredAllocation": self._prefer,
        }
        handlers = {}
        for name, method in methods.items():
            request, response = messages.METHODS[name]
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                self._parsed(classes[request], method), None, classes[response].SerializeToString
            )
        generation = self._generation
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
            lambda request, context: self._follow(context, generation),  # noqa: ARG005 - as above
            classes["Empty"].FromString,
            None,  # the list is kept as bytes
        )
        return handlers

    def _parsed(self, form: Any, method: Callable[[Any, Any], Any]) -> Callable[[bytes, Any], Any]:
        """A method for requests as bytes, which refuses those that are no message of this form."""

        def call(data: bytes, context: Any) -> Any:
            try:
                request = form.FromString(data)
            except Exception as error:  # DecodeError, of the module that protobuf chose for its messages
                text = f"{self.resource}: the request is no {form.DESCRIPTOR.name}: {error}"
                context.abort(self._common.grpc.StatusCode.INVALID_ARGUMENT, text)
            return method(request, context)

        return call

    def _follow(self, context: Any, generation: int) -> Iterator[bytes]:
        """The list now, and each time that it has changed."""

        def wake() -> None:
            with self._condition:
                self._condition.notify_all()

        if not context.add_callback(wake):
            return  # the kubelet is gone
        sent: bytes | None = None
        with self._condition:
            self._streams += 1
        try:
            while True:
                with self._condition:
                    while (is_open := generation == self._generation and context.is_active()) and self._list == sent:
                        self._condition.wait()
                    if not is_open:
                        return
                    sent = self._list
                self._common.metrics.lists.add(self.resource)
                yield sent
        finally:
            with self._condition:
                self._streams -= 1

    def _listed(self, state: ResourceState) -> bytes:
        classes = self._common.messages
        devices = []
        for id, unit in state.ids.items():
            health = messages.UNHEALTHY if unit.fault else messages.HEALTHY
            device = classes["Device"](ID=id, health=health)
            if unit.position.numa >= 0:
                device.topology.nodes.add(ID=unit.position.numa)
            devices.append(device)
        return bytes(classes["ListAndWatchResponse"](devices=devices).SerializeToString())

    def _allocate(self, request: Any, context: Any) -> Any:
        containers = [list(container.devices_ids) for container in request.container_requests]
        state, form = self._state, self._common.form()
        try:
            answers = allocation.answers(state, containers, form, self._common.prefix)
        except RefusedError as refused:
            self._refuse(context, refused, containers)
        classes = self._common.messages
        response = classes["AllocateResponse"]()
        for answer in answers:
            added = response.container_responses.add()
            added.annotations.update(answer.annotations)
            for name in answer.cdi_devices:
                added.cdi_devices.add(name=name)
            text = f"a container gets {', '.join(answer.names)}"
            self._common.journal.event("allocate", text, resource=self.resource, devices=list(answer.names), form=form)
        self._common.metrics.allocations.add((self.resource, "OK"))
        return response

    def _refuse(self, context: Any, refused: RefusedError, containers: list[list[str]]) -> None:
        """End the call with a status; does not return."""
        self._common.metrics.allocations.add((self.resource, refused.code))
        self._common.journal.event(
            "refuse", str(refused), resource=self.resource, code=refused.code, devices=containers
        )
        context.abort(getattr(self._common.grpc.StatusCode, refused.code), str(refused))

    def _prefer(self, request: Any, context: Any) -> Any:
        state = self._state
        response = self._common.messages["PreferredAllocationResponse"]()
        for wanted in request.container_requests:
            available, must = list(wanted.available_deviceIDs), list(wanted.must_include_deviceIDs)
            size = wanted.allocation_size
            try:
                allocation.check(state, available, "available_deviceIDs")
                allocation.check(state, must, "must_include_deviceIDs")
                if not len(must) <= size <= len(available) or not set(must) <= set(available):
                    text = (
                        f"{self.resource}: {size} of {len(available)} with {len(must)} that are given cannot be chosen"
                    )
                    raise RefusedError(allocation.INVALID, text)
            except RefusedError as refused:
                context.abort(getattr(self._common.grpc.StatusCode, refused.code), str(refused))
            if state.resource.replicas == 1:
                positions = {id: unit.position for id, unit in state.ids.items()}
                chosen = preferred.whole(available, must, size, positions)
            else:
                units = {id: unit.unit.name for id, unit in state.ids.items()}
                chosen = preferred.replicas(available, must, size, units, state.resource.allocation)
            response.container_responses.add(deviceIDs=chosen)
        return response


def options(classes: messages.Messages) -> Any:
    """What the kubelet calls: GetPreferredAllocation, and no PreStartContainer."""
    return classes["DevicePluginOptions"](pre_start_required=False, get_preferred_allocation_available=True)
