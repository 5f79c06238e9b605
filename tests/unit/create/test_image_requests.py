"""Compatibility sources: what a value means, who may ask, and that they are off."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.base.findings import CdiError
from shim.config.settings import ANY, OFF, PRIVILEGED, Settings
from shim.create import image_requests, request

Json = dict[str, Any]
BELOW = "/var/run/nvidia-container-devices"
UUID = "8932f937-d72c-4106-c12f-20bd9faed9f6"


def _settings(environment: str = ANY, mounts: str = ANY, **more: Any) -> Settings:
    found = Settings()
    found.environment, found.mounts = environment, mounts
    for name, value in more.items():
        setattr(found, name, value)
    return found


def _config(*env: str, mounts: Any = (), **more: Any) -> Json:
    return {"process": {"env": ["PATH=/bin", *env]}, "mounts": list(mounts), **more}


def _mount(below: str, source: str = "/dev/null", directory: str = BELOW) -> Json:
    return {"destination": f"{directory}/{below}", "source": source, "type": "bind", "options": ["bind"]}


def _privileged(config: Json) -> Json:
    return {**config, "process": {**config["process"], "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}}}


def _ask(config: Json, settings: Settings, wanted: dict[str, str] | None = None) -> dict[str, str]:
    earlier = wanted or {}
    return {**earlier, **image_requests.ask(config, settings, earlier).requests}


# --- what a variable means ---

GPU, AMD = "nvidia.com/gpu=", "amd.com/gpu="
VALUES: dict[str, tuple[str, list[str]]] = {
    "empty: nothing": ("", []),
    "commas alone: nothing": (" , ,", []),
    "an index": ("0", [f"{GPU}0"]),
    "two indexes, spaces around them": (" 1 , 0 ", [f"{GPU}1", f"{GPU}0"]),
    "an index twice is the device once": ("0,0", [f"{GPU}0"]),
    "an empty item between": ("0,,1", [f"{GPU}0", f"{GPU}1"]),
    "all": ("all", [f"{GPU}all"]),
    "all beside an index is all": ("0,all", [f"{GPU}all"]),
    "all beside none is all": ("none,all", [f"{GPU}all"]),
    "none: the driver alone": ("none", [f"{GPU}none"]),
    "none beside an index is none": ("0,none", [f"{GPU}none"]),
    "void: nothing": ("void", []),
    "void beside anything: nothing": ("all,0,void,acme.example/nic=0", []),
    "a word counts as it is spelled": ("All", [f"{GPU}All"]),
    "a GPU's UUID": (f"GPU-{UUID}", [f"{GPU}GPU-{UUID}"]),
    "a MIG device's UUID": (f"MIG-{UUID}", [f"{GPU}MIG-{UUID}"]),
    "a MIG device by indexes": ("0:1", [f"{GPU}0:1"]),
    "a MIG device as old drivers name it, whose slashes no CDI name holds": (
        f"MIG-GPU-{UUID}/7/0",
        [f"{GPU}MIG-GPU-{UUID}:7:0"],
    ),
    "a qualified name, of whatever kind": ("acme.example/nic=e0", ["acme.example/nic=e0"]),
    "a mixture": ("0,acme.example/nic=e0,nvidia.com/gpu=1", [f"{GPU}0", "acme.example/nic=e0", f"{GPU}1"]),
    "the same device by index and by qualified name": ("0,nvidia.com/gpu=0", [f"{GPU}0"]),
    "all stands for its own kind only": ("all,acme.example/nic=e0", [f"{GPU}all", "acme.example/nic=e0"]),
    "a range": ("2-4", [f"{GPU}2", f"{GPU}3", f"{GPU}4"]),
    "a range of one": ("3-3", [f"{GPU}3"]),
    "a range and an index in it": ("0-1,1", [f"{GPU}0", f"{GPU}1"]),
    "the directory of the mount list points there and asks for nothing": (BELOW, []),
}


@pytest.mark.parametrize(("value", "names"), VALUES.values(), ids=VALUES.keys())
def test_a_variable_asks(value: str, names: list[str]) -> None:
    found = _ask(_config(f"NVIDIA_VISIBLE_DEVICES={value}"), _settings())
    assert list(found) == names
    assert set(found.values()) <= {"variable NVIDIA_VISIBLE_DEVICES"}


def test_without_the_variable_nothing_asks() -> None:
    assert _ask(_config("NVIDIA_VISIBLE_DEVICES"), _settings()) == {}  # no `=`: not set
    assert _ask(_config("NVIDIA_VISIBLE_DEVICES_X=0", "XNVIDIA_VISIBLE_DEVICES=0"), _settings()) == {}


def test_an_image_of_old_cuda_without_a_request_asks_for_nothing() -> None:
    """NVIDIA's runtime takes it for `all`: a request by nobody for everything."""
    assert _ask(_config("CUDA_VERSION=9.0"), _settings()) == {}


def test_of_two_entries_the_last_counts() -> None:
    assert list(_ask(_config("AMD_VISIBLE_DEVICES=0", "AMD_VISIBLE_DEVICES=1"), _settings())) == [f"{AMD}1"]


def test_each_variable_has_its_kind_and_unique_ids_are_names() -> None:
    config = _config("AMD_VISIBLE_DEVICES=0-1,0x8e4f5a5c2a1d7b3f", "NVIDIA_VISIBLE_DEVICES=0")
    assert _ask(config, _settings()) == {
        f"{GPU}0": "variable NVIDIA_VISIBLE_DEVICES",
        f"{AMD}0": "variable AMD_VISIBLE_DEVICES",
        f"{AMD}1": "variable AMD_VISIBLE_DEVICES",
        f"{AMD}0x8e4f5a5c2a1d7b3f": "variable AMD_VISIBLE_DEVICES",
    }


def test_a_swarm_variable_stands_in_for_those_of_its_kind() -> None:
    """The image's own NVIDIA_VISIBLE_DEVICES=all must not add to what swarm has reserved."""
    settings = _settings(swarm_variables={"DOCKER_RESOURCE_GPU": "nvidia.com/gpu"})
    image = "NVIDIA_VISIBLE_DEVICES=all", "AMD_VISIBLE_DEVICES=1"
    assert list(_ask(_config(*image), settings)) == [f"{GPU}all", f"{AMD}1"]
    assert _ask(_config(*image, f"DOCKER_RESOURCE_GPU=GPU-{UUID}"), settings) == {
        f"{GPU}GPU-{UUID}": "variable DOCKER_RESOURCE_GPU",
        f"{AMD}1": "variable AMD_VISIBLE_DEVICES",
    }
    assert list(_ask(_config(*image, "DOCKER_RESOURCE_GPU="), settings)) == [f"{AMD}1"]


def test_imex_channels_are_asked_for_by_number_or_name_and_a_variable_cannot_take_all() -> None:
    settings = _settings(variables={"NVIDIA_IMEX_CHANNELS": "nvidia.com/imex-channel"})
    assert list(_ask(_config("NVIDIA_IMEX_CHANNELS=0,channel3,all"), settings)) == [
        "nvidia.com/imex-channel=0",
        "nvidia.com/imex-channel=3",
    ]


# --- what the mount list means ---

MOUNTS: dict[str, tuple[list[Json], list[str]]] = {
    "an index": ([_mount("0")], [f"{GPU}0"]),
    "two": ([_mount("1"), _mount(f"GPU-{UUID}")], [f"{GPU}1", f"{GPU}GPU-{UUID}"]),
    "the same twice": ([_mount("0"), _mount("0")], [f"{GPU}0"]),
    "all": ([_mount("0"), _mount("all")], [f"{GPU}all"]),
    "void": ([_mount("0"), _mount("void")], []),
    "none": ([_mount("none")], [f"{GPU}none"]),
    "a MIG device as old drivers name it": ([_mount(f"MIG-GPU-{UUID}/7/0")], [f"{GPU}MIG-GPU-{UUID}:7:0"]),
    "a CDI device by directories": ([_mount("cdi/acme.example/nic/e0")], ["acme.example/nic=e0"]),
    "a CDI device by its name": ([_mount("cdi/acme.example/nic=e0")], ["acme.example/nic=e0"]),
    "an imex channel": ([_mount("imex/3"), _mount("imex/channel4")], [f"nvidia.com/imex-channel={n}" for n in (3, 4)]),
    "a mixture": ([_mount("imex/3"), _mount("0")], [f"{GPU}0", "nvidia.com/imex-channel=3"]),
    "a path that needs cleaning": ([_mount("./x/../0/")], [f"{GPU}0"]),
    "another source": ([_mount("0", source="/dev/zero"), _mount("1", source="/dev//null")], []),
    "the directory itself": ([_mount("")], []),
    "a directory whose name goes on": ([_mount("0", directory=f"{BELOW}X")], []),
    "a path that leads out again": ([_mount("../0")], []),
    "another directory": ([_mount("0", directory="/run/nvidia-container-devices")], []),
}


@pytest.mark.parametrize(("mounts", "names"), MOUNTS.values(), ids=MOUNTS.keys())
def test_a_mount_asks(mounts: list[Json], names: list[str]) -> None:
    assert list(_ask(_config(mounts=mounts), _settings())) == names


def test_the_trace_names_the_mount() -> None:
    mounts = [_mount("0"), _mount(f"MIG-GPU-{UUID}/7/0"), _mount("cdi/a.example/b/c"), _mount("imex/1")]
    assert list(_ask(_config(mounts=mounts), _settings()).values()) == [f"mount {one['destination']}" for one in mounts]
    assert _ask(_config(mounts=[_mount("0"), _mount("all")]), _settings()) == {f"{GPU}all": f"mount {BELOW}/all"}


def test_a_bare_id_in_the_mount_list_is_of_the_default_kind() -> None:
    settings = _settings(default_kind="acme.example/gpu")
    mounts = [_mount("0"), _mount("imex/1")]
    assert list(_ask(_config(mounts=mounts), settings)) == ["acme.example/gpu=0", "acme.example/imex-channel=1"]


# --- what names no device ---

BAD: dict[str, tuple[Json, str]] = {
    "a space inside": (_config("NVIDIA_VISIBLE_DEVICES=0 1"), "variable NVIDIA_VISIBLE_DEVICES"),
    "a path": (_config("NVIDIA_VISIBLE_DEVICES=/dev/nvidia0"), "/dev/nvidia0"),
    "a pattern": (_config("NVIDIA_VISIBLE_DEVICES=*"), "'*'"),
    "a qualified name with a bad device": (_config("NVIDIA_VISIBLE_DEVICES=a.b/c=+"), "a.b/c=+"),
    "a range that goes down": (_config("AMD_VISIBLE_DEVICES=3-1"), "3-1"),
    "a range of everything": (_config("AMD_VISIBLE_DEVICES=0-999999999"), "0-999999999"),
    "a number without an end": (_config(f"AMD_VISIBLE_DEVICES=0-{'9' * 5000}/"), "0-999"),
    "old MIG names with more parts": (_config("NVIDIA_VISIBLE_DEVICES=MIG-GPU-x/1/2/3"), "MIG-GPU-x/1/2/3"),
    "a shell's words (S19)": (_config("NVIDIA_VISIBLE_DEVICES=$(id)"), "$(id)"),
    "a plus sign (S19)": (_config("NVIDIA_VISIBLE_DEVICES=0+1"), "0+1"),
    "NUL": (_config("NVIDIA_VISIBLE_DEVICES=0\0"), "\\x00"),
    "a surrogate": (_config("NVIDIA_VISIBLE_DEVICES=\ud800"), "\\ud800"),
    "64 KiB (S19)": (_config("NVIDIA_VISIBLE_DEVICES=" + "x," * 32768 + "/"), "nvidia.com/gpu=/"),
    "a mount with a comma": (_config(mounts=[_mount("0,1")]), "nvidia.com/gpu=0,1"),
    "a mount deeper than an id": (_config(mounts=[_mount("0/1")]), "nvidia.com/gpu=0/1"),
    "a CDI mount without a device": (_config(mounts=[_mount("cdi/acme.example/nic")]), "acme.example=nic"),
    "an imex mount that is no channel": (_config(mounts=[_mount("imex/../imex/a/b")]), "imex-channel=a/b"),
}


@pytest.mark.parametrize(("config", "named"), BAD.values(), ids=BAD.keys())
def test_what_names_no_device_is_refused_in_one_line(config: Json, named: str) -> None:
    with pytest.raises(CdiError) as caught:
        _ask(config, _settings())
    [finding] = caught.value.findings
    assert finding.id == "SOURCE_VALUE"
    assert named in str(finding)
    assert str(finding).isprintable()


ODD: dict[str, Any] = {
    "nothing": {},
    "a process that is no object": {"process": []},
    "an environment that is no list": {"process": {"env": "NVIDIA_VISIBLE_DEVICES=0"}},
    "entries that are no texts": {"process": {"env": [1, None, ["NVIDIA_VISIBLE_DEVICES=0"]]}},
    "mounts that are no list": {"mounts": {"destination": f"{BELOW}/0", "source": "/dev/null"}},
    "mounts that are no objects": {"mounts": [f"{BELOW}/0", None]},
    "a destination that is no text": {"mounts": [{"destination": 0, "source": "/dev/null"}, {"source": "/dev/null"}]},
    "capabilities that are no object": {"process": {"capabilities": ["CAP_SYS_ADMIN"]}},
    "a bounding set that is a text": {"process": {"capabilities": {"bounding": "CAP_SYS_ADMIN"}}},
}


@pytest.mark.parametrize("config", ODD.values(), ids=ODD.keys())
def test_a_config_of_another_shape_asks_for_nothing(config: Any) -> None:
    """What is wrong with it is for the low-level runtime to say."""
    assert _ask(config, _settings()) == {}
    assert not image_requests.is_privileged(config)
    assert image_requests.ignored_requests(config, Settings()) == []


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text("0a/=,-", max_size=6)
    | st.sampled_from([f"{BELOW}/0", "/dev/null"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["process", "env", "mounts", "destination", "source", "capabilities", "bounding"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["process", "mounts"]), JSON))
def test_no_shape_of_a_config_makes_it_fall_over(config: Json) -> None:
    try:
        _ask(config, _settings(environment=PRIVILEGED))
    except CdiError as error:
        assert error.findings[0].id == "SOURCE_VALUE"
    image_requests.ignored_requests(config, Settings())


# --- who may ask (S09) ---

ASKING = _config("NVIDIA_VISIBLE_DEVICES=all", mounts=[_mount("0")])
CAPABILITIES: dict[str, tuple[Any, bool]] = {
    "CAP_SYS_ADMIN in the bounding set": ({"bounding": ["CAP_SYS_ADMIN"]}, True),
    "all other capabilities": ({"bounding": ["CAP_SYS_MODULE", "CAP_DAC_OVERRIDE"]}, False),
    "CAP_SYS_ADMIN in all other sets": (
        {"effective": ["CAP_SYS_ADMIN"], "permitted": ["CAP_SYS_ADMIN"], "ambient": ["CAP_SYS_ADMIN"]},
        False,
    ),
    "another spelling": ({"bounding": ["cap_sys_admin", "SYS_ADMIN"]}, False),
    "no capabilities": ({}, False),
    "no such section": (None, False),
}


@pytest.mark.parametrize(("sets", "may"), CAPABILITIES.values(), ids=CAPABILITIES.keys())
def test_s09_only_a_privileged_container_asks_unless_the_configuration_says_any(sets: Any, may: bool) -> None:
    """With its positive control: the same container is heard where the configuration says so."""
    config = {**ASKING, "process": {**ASKING["process"], "capabilities": sets}}
    assert bool(_ask(config, _settings(PRIVILEGED, PRIVILEGED))) is may
    assert list(_ask(config, _settings(ANY, ANY))) == [f"{GPU}0", f"{GPU}all"]
    assert _ask(config, Settings()) == {}


def test_s09_an_unprivileged_container_starts_without_and_a_warning_says_why_and_what_to_do() -> None:
    found = image_requests.ask(ASKING, _settings(PRIVILEGED, PRIVILEGED), ())
    assert found.requests == {}
    assert [(finding.id, finding.level) for finding in found.warnings] == [("SOURCE_UNPRIVILEGED", "WARNING")] * 2
    for finding, key, name in zip(found.warnings, ("mounts", "environment"), ("0", "all"), strict=True):
        assert f"{GPU}{name}" in str(finding)
        assert "CAP_SYS_ADMIN" in str(finding)
        assert f'sources.{key} to "any"' in finding.remedy
        assert "--device" in finding.remedy


def test_s09_a_value_of_nonsense_in_a_container_that_may_not_ask_stops_nobody() -> None:
    found = image_requests.ask(_config("NVIDIA_VISIBLE_DEVICES=$(id)"), _settings(PRIVILEGED), ())
    assert found.requests == {}
    assert "$(id)" in str(found.warnings[0])


@pytest.mark.parametrize("value", ["void", ""])
def test_who_asks_for_nothing_is_not_warned(value: str) -> None:
    assert image_requests.ask(_config(f"NVIDIA_VISIBLE_DEVICES={value}"), _settings(PRIVILEGED), {}).warnings == []


# --- off, and what doctor says of it ---


def test_s20_s22_labels_env_and_other_annotations_of_an_image_are_no_request_unless_switched_on() -> None:
    config = _config(
        "cdi.k8s.io/x=acme.example/gpu=0",
        "SHIM_CONFIG=/tmp/evil.toml",
        "NVIDIA_VISIBLE_DEVICES=all",
        mounts=[_mount("all")],
        labels={"cdi.k8s.io/x": "acme.example/gpu=0"},
        annotations={
            "org.opencontainers.image.cdi.k8s.io/x": "acme.example/gpu=0",
            "xcdi.k8s.io/x": "acme.example/gpu=0",
            "CDI.K8S.IO/x": "acme.example/gpu=0",
            "shim.sources.environment": "any",
        },
    )
    settings = Settings()
    assert request.ask(config["annotations"], (), settings.annotation_prefixes, settings.default_kind) == {}
    assert _ask(config, settings) == {}
    # positive control: an annotation that is a request, and the sources switched on
    asking = {**config, "annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}
    assert len(request.ask(asking["annotations"], (), settings.annotation_prefixes, settings.default_kind)) == 1
    assert list(_ask(config, _settings())) == [f"{GPU}all"]


def test_a_source_that_is_off_and_would_have_matched_is_told_with_both_remedies() -> None:
    found = image_requests.ignored_requests(ASKING, Settings())
    assert [(finding.id, finding.level) for finding in found] == [("SOURCE_OFF", "NOTE")] * 2
    assert [str(finding).partition(",")[0] for finding in found] == [
        f"the mount list asks for {GPU}0",
        f"variable NVIDIA_VISIBLE_DEVICES asks for {GPU}all",
    ]
    for finding in found:
        assert "annotation" in finding.remedy
        assert "--device" in finding.remedy
        assert '"privileged" or "any" in /etc/shim/config.toml' in finding.remedy


def test_a_source_that_counts_is_not_told() -> None:
    assert image_requests.ignored_requests(ASKING, _settings()) == []
    assert image_requests.ignored_requests(_privileged(ASKING), _settings(PRIVILEGED, PRIVILEGED)) == []
    found = image_requests.ignored_requests(ASKING, _settings(PRIVILEGED, PRIVILEGED))
    assert {finding.id for finding in found} == {"SOURCE_UNPRIVILEGED"}


def test_a_variable_that_the_configuration_leaves_out_is_told() -> None:
    settings = _settings(variables={"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu"})
    [finding] = image_requests.ignored_requests(_config("AMD_VISIBLE_DEVICES=0-7"), settings)
    assert f"{AMD}0, {AMD}1, {AMD}2, {AMD}3 and 4 more" in str(finding)
    assert "sources.variables" in finding.remedy


def test_looking_changes_nothing() -> None:
    before = json.dumps(ASKING)
    image_requests.ignored_requests(ASKING, Settings())
    _ask(ASKING, _settings())
    assert json.dumps(ASKING) == before


# --- several sources ---


def test_sources_are_merged_and_the_first_to_ask_keeps_the_credit() -> None:
    config = _config("NVIDIA_VISIBLE_DEVICES=0,1,2", mounts=[_mount("1")])
    assert _ask(config, _settings(), {f"{GPU}0": "--device"}) == {
        f"{GPU}0": "--device",
        f"{GPU}1": f"mount {BELOW}/1",
        f"{GPU}2": "variable NVIDIA_VISIBLE_DEVICES",
    }


def test_without_merging_the_first_source_that_asks_is_the_only_one() -> None:
    config = _config("NVIDIA_VISIBLE_DEVICES=all", mounts=[_mount("1")])
    settings = _settings(merge=False)
    assert _ask(config, settings, {f"{GPU}0": "annotation x"}) == {f"{GPU}0": "annotation x"}
    assert list(_ask(config, settings)) == [f"{GPU}1"]
    assert list(_ask({**config, "mounts": []}, settings)) == [f"{GPU}all"]


@pytest.mark.parametrize(
    ("environment", "mounts", "names"),
    [(OFF, ANY, [f"{GPU}0"]), (ANY, OFF, [f"{GPU}all"]), (PRIVILEGED, ANY, [f"{GPU}0"])],
)
def test_each_source_has_its_own_switch(environment: str, mounts: str, names: list[str]) -> None:
    assert list(_ask(ASKING, _settings(environment, mounts))) == names


def test_none_is_marked_as_the_driver_alone_unless_somebody_asked_for_it_by_name() -> None:
    config = _config("NVIDIA_VISIBLE_DEVICES=none")
    assert image_requests.ask(config, _settings(), {}).driver_only == [f"{GPU}none"]
    assert image_requests.ask(config, _settings(), {f"{GPU}none": "--device"}).driver_only == []


# --- the variable afterwards (one entry, not two) ---


def test_a_variable_that_asked_stands_in_the_environment_once() -> None:
    config = _config("NVIDIA_VISIBLE_DEVICES=1", "A=1", "NVIDIA_VISIBLE_DEVICES=0", "A=2")
    before = json.dumps(config)
    edited = image_requests.ask(config, _settings(), ()).without_repeats(config)
    assert edited["process"]["env"] == ["PATH=/bin", "A=1", "NVIDIA_VISIBLE_DEVICES=0", "A=2"]
    assert json.dumps(config) == before


def test_an_environment_that_did_not_ask_is_left_alone() -> None:
    config = _config("A=1", "A=2", mounts=[_mount("0")])
    assert image_requests.ask(config, _settings(), ()).without_repeats(config) is config
