"""Sharing as the configuration of the device plugin has it."""

from __future__ import annotations

from shim.node import settings
from shim.node.labels.sharing import Sharing, configured


def sharing(text: str) -> Sharing:
    return configured(settings.parse(text))


def resource(kind: str, **values: object) -> str:
    lines = [f"{key} = {value}" for key, value in values.items()]
    return "\n".join(["[[resource]]", f'kind = "{kind}"', *lines, ""])


def test_without_a_configuration_nothing_is_shared() -> None:
    assert sharing("").of("nvidia.com/gpu") == ("none", 1)
    assert sharing(resource("nvidia.com/gpu")).of("nvidia.com/gpu") == ("none", 1)


def test_a_kind_is_shared_as_its_resource() -> None:
    shared = sharing(resource("amd.com/gpu", replicas=4) + resource("nvidia.com/gpu"))
    assert shared.of("amd.com/gpu") == ("time-slicing", 4)
    assert shared.mark("amd.com/gpu") == "-SHARED"
    assert shared.of("nvidia.com/gpu") == ("none", 1)
    assert shared.mark("nvidia.com/gpu") == ""


def test_a_resource_of_another_name_has_no_mark() -> None:
    shared = sharing(resource("amd.com/gpu", replicas=4, name='"amd.com/slice"'))
    assert shared.of("amd.com/gpu") == shared.of("amd.com/slice") == ("time-slicing", 4)
    assert shared.mark("amd.com/gpu") == ""


def test_a_resource_of_some_devices_is_not_the_kind() -> None:
    mig = resource("nvidia.com/gpu", replicas=2, name='"nvidia.com/mig-1g.5gb"', devices=["0:*"])
    shared = sharing(mig)
    assert shared.of("nvidia.com/mig-1g.5gb") == ("time-slicing", 2)
    assert shared.of("nvidia.com/gpu") == ("none", 1)
    assert sharing(mig + resource("nvidia.com/gpu", replicas=3)).of("nvidia.com/gpu") == ("time-slicing", 3)
