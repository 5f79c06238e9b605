"""A kubelet as a test double, over real gRPC and a real socket: it takes registrations, and follows and asks plugins.

As the real one it empties its directory when it starts, dials a plugin after its registration, and follows its list.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

from shim.node.plugin import library, messages

PATIENCE = 60.0  # seconds for whatever is waited for; nothing is measured by it
_AUTHORITY = [("grpc.default_authority", "localhost")]


class RefusedError(Exception):
    """A call that a plugin refused.

    Attributes:
        code: the name of gRPC's status code.
    """

    def __init__(self, error: Any) -> None:
        self.code = error.code().name
        super().__init__(error.details())


class Follower:
    """A plugin that has registered, as the kubelet sees it.

    Attributes:
        lists: every list of devices that it sent: id -> (health, NUMA nodes).
        options: what GetDevicePluginOptions answered.
    """

    def __init__(self, kubelet: FakeKubelet, endpoint: str, resource: str) -> None:
        self.endpoint = endpoint
        self.resource = resource
        self.lists: list[dict[str, tuple[str, tuple[int, ...]]]] = []
        self.ended = threading.Event()
        self._kubelet = kubelet
        self._channel = kubelet.grpc.insecure_channel(f"unix:{kubelet.directory}/{endpoint}", _AUTHORITY)
        self.options = self.call("GetDevicePluginOptions", {})
        self._stream = self._method("ListAndWatch")(kubelet.messages["Empty"]())
        threading.Thread(target=self._follow, daemon=True).start()

    def call(self, method: str, request: Any, **members: Any) -> Any:
        """Call a method. Raises RefusedError."""
        form = self._kubelet.messages[messages.METHODS[method][0]]
        message = request if hasattr(request, "SerializeToString") else form(**request, **members)
        try:
            return self._method(method)(message, timeout=PATIENCE)
        except self._kubelet.grpc.RpcError as error:
            raise RefusedError(error) from None

    def allocate(self, *containers: Sequence[str]) -> list[tuple[dict[str, str], list[str]]]:
        """For each container its annotations and CDI devices. Raises RefusedError."""
        form = self._kubelet.messages["ContainerAllocateRequest"]
        requests = [form(devices_ids=ids) for ids in containers]
        answer = self.call("Allocate", {"container_requests": requests})
        for response in answer.container_responses:
            assert not (response.envs or response.mounts or response.devices)
        return [(dict(r.annotations), [device.name for device in r.cdi_devices]) for r in answer.container_responses]

    def prefer(self, available: Sequence[str], size: int, must: Sequence[str] = ()) -> list[str]:
        """The ids that the plugin prefers. Raises RefusedError."""
        form = self._kubelet.messages["ContainerPreferredAllocationRequest"]
        wanted = form(available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size)
        answer = self.call("GetPreferredAllocation", {"container_requests": [wanted]})
        return list(answer.container_responses[0].deviceIDs)

    def raw(self, method: str, data: bytes) -> None:
        """Send bytes that may be no message. Raises RefusedError."""
        try:
            self._channel.unary_unary(f"/{messages.SERVICE}/{method}")(data, timeout=PATIENCE)
        except self._kubelet.grpc.RpcError as error:
            raise RefusedError(error) from None

    def health(self) -> dict[str, str]:
        """id -> Healthy or Unhealthy, in the last list."""
        return {id: health for id, (health, _) in self.lists[-1].items()} if self.lists else {}

    def wait_health(self, **expected: str) -> None:
        """Wait until the last list has these devices with this health, and no others."""
        wait(lambda: self.health() == expected, lambda: f"{self.health()} instead of {expected}")

    def close(self) -> None:
        self._stream.cancel()
        self._channel.close()

    def _method(self, name: str) -> Any:
        request, response = messages.METHODS[name]
        kind = self._channel.unary_stream if response.endswith("*") else self._channel.unary_unary
        return kind(
            f"/{messages.SERVICE}/{name}",
            self._kubelet.messages[request].SerializeToString,
            self._kubelet.messages[response.rstrip("*")].FromString,
        )

    def _follow(self) -> None:
        try:
            for answer in self._stream:
                devices = answer.devices
                self.lists.append(
                    {each.ID: (each.health, tuple(node.ID for node in each.topology.nodes)) for each in devices}
                )
        except self._kubelet.grpc.RpcError:
            pass
        finally:
            self.ended.set()


class FakeKubelet:
    """A kubelet.

    Arguments:
        directory: of its sockets; made when it is missing.

    Attributes:
        registered: the requests of all starts, in order: (resource, endpoint, version).
        refusal: a text with which every registration is refused; "" for none.
    """

    def __init__(self, directory: Path) -> None:
        self.grpc = library.load()
        self.messages = messages.Messages()
        self.directory = directory
        self.registered: list[tuple[str, str, str]] = []
        self.refusal = ""
        self._followers: dict[str, Follower] = {}
        self._server: Any = None

    def __enter__(self) -> FakeKubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Empty the directory, and listen."""
        self.directory.mkdir(exist_ok=True)
        for path in self.directory.iterdir():
            path.unlink()
        request, response = self.messages["RegisterRequest"], self.messages["Empty"]
        handler = self.grpc.unary_unary_rpc_method_handler(
            self._register, request.FromString, response.SerializeToString
        )
        handlers = self.grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler})
        self._server = self.grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers([handlers])
        self._server.add_insecure_port(f"unix:{self.directory}/kubelet.sock")
        self._server.start()

    def stop(self) -> None:
        """End, as the process does: connections are closed, the socket stays."""
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()
        if self._server:
            self._server.stop(None).wait(PATIENCE)
            self._server = None

    def plugin(self, resource: str) -> Follower:
        """The plugin of a resource, waited for, with its first list."""
        wait(lambda: resource in self._followers, lambda: f"{resource} is not registered; {list(self._followers)} are")
        follower = self._followers[resource]
        wait(lambda: bool(follower.lists), lambda: f"{resource} sends no list")
        return follower

    def _register(self, request: Any, context: Any) -> Any:
        if self.refusal:
            context.abort(self.grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        self.registered.append((request.resource_name, request.endpoint, request.version))
        before = self._followers.pop(request.resource_name, None)
        if before:
            before.close()
        threading.Thread(target=self._dial, args=(request.endpoint, request.resource_name), daemon=True).start()
        return self.messages["Empty"]()

    def _dial(self, endpoint: str, resource: str) -> None:
        self._followers[resource] = Follower(self, endpoint, resource)


def wait(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for a condition. Raises AssertionError, with what is the case instead."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.02)
