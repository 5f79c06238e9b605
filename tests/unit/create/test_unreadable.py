"""A configuration that cannot be read: a container that asks in any way is refused, and every other starts.

The story: with `[sources] environment = "any"` and then a broken configuration (a typing error, mode 0666, one bad
value elsewhere), a container that asked by a variable started without its device and without a word: the defaults had
taken the place of what the file switches on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.create.test_create import DRIVER, SANDBOX, Scene, _env

from shim.config import location

ON = """
[sources]
environment = "any"
mounts = "any"
[sources.variables]
NVIDIA_VISIBLE_DEVICES = "nvidia.com/gpu"
AMD_VISIBLE_DEVICES = "amd.com/gpu"
MY_DEVICES = "nvidia.com/gpu"
"""


@pytest.fixture
def scene(trusted_path: Path, modules: Path) -> Scene:
    """A configuration with every source on, and names of its own; it is good until a test breaks it."""
    made = Scene(trusted_path, modules)
    (made.specs / "nvidia.json").write_text(json.dumps(DRIVER))
    text = made.settings.read_text().replace("acme.example", "nvidia.com")
    made.settings.write_text(f'{text}annotation-prefixes = ["cdi.k8s.io/", "my.example/"]\n{ON}')
    return made


def _add(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text() + text)


BREAK: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a typing error": (_add("[log\n"), "SETTINGS", ":14: it is not valid TOML"),
    "writable by everybody": (
        lambda path: path.chmod(0o666),
        "SETTINGS_UNTRUSTED",
        ": the configuration is not trusted",
    ),
    "one bad value elsewhere": (_add("[hooks]\nfold = 1\n"), "SETTINGS", ":15: hooks.fold must be"),
    "missing": (Path.unlink, "SETTINGS", ": the configuration file cannot be read: it is missing"),
}


def _variables(*env: str) -> dict[str, Any]:
    return {"process": {"env": list(env)}}


def _mount(item: str) -> dict[str, Any]:
    return {"mounts": [{"destination": f"/var/run/nvidia-container-devices/{item}", "source": "/dev/null"}]}


REFUSED = {"DEVICE_UNKNOWN", "SOURCE_VALUE", "ANNOTATION_INVALID", "REQUEST_ORIGIN"}
ASKS: dict[str, dict[str, Any]] = {
    "a variable": _variables("A=1", "NVIDIA_VISIBLE_DEVICES=0"),
    "a variable that says all": _variables("NVIDIA_VISIBLE_DEVICES=all"),
    "a variable that asks for the driver": _variables("NVIDIA_VISIBLE_DEVICES=none"),
    "a variable of another vendor": _variables("AMD_VISIBLE_DEVICES=0"),
    "a variable with a value that names no device": _variables("NVIDIA_VISIBLE_DEVICES=$(id)"),
    "a mount": _mount("0"),
    "an annotation": {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=0"}},
    "an annotation that is no list of names": {"annotations": {"cdi.k8s.io/x": "all gpus"}},
    "an annotation that an image of podman's may have written": {
        "annotations": {"io.container.manager": "libpod", "cdi.k8s.io/x": "nvidia.com/gpu=0"}
    },
}
ASKS_BY_A_NAME_OF_THE_CONFIGURATION: dict[str, dict[str, Any]] = {
    "a variable of the configuration": _variables("MY_DEVICES=0"),
    "an annotation of the configuration": {"annotations": {"my.example/x": "nvidia.com/gpu=0"}},
}
ASKS_FOR_NOTHING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "void": _variables("NVIDIA_VISIBLE_DEVICES=void"),
    "void beside a device": _variables("NVIDIA_VISIBLE_DEVICES=0,void"),
    "an empty value": _variables("NVIDIA_VISIBLE_DEVICES="),
    "an empty value behind another": _variables("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_VISIBLE_DEVICES="),
    "the word of a device plugin for the mounts, and no mount": _variables(
        "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices"
    ),
    "void among the mounts": _mount("void"),
    "a sandbox": {
        **_variables("NVIDIA_VISIBLE_DEVICES=0"),
        "annotations": {**SANDBOX, "cdi.k8s.io/x": "nvidia.com/gpu=0"},
    },
}


@pytest.mark.parametrize("config", (ASKS | ASKS_BY_A_NAME_OF_THE_CONFIGURATION).values())
def test_with_the_configuration_whole_each_of_these_asks(scene: Scene, config: dict[str, Any]) -> None:
    """The positive control: each gets a device, or is refused for what it asks."""
    scene.write(config)
    done = scene.create()
    given = done.returncode == 0 and "DRIVER=1" in _env(scene)
    assert given or done.stderr.split(":")[1].strip() in REFUSED


@pytest.mark.parametrize(("breaking", "finding", "text"), BREAK.values(), ids=BREAK.keys())
@pytest.mark.parametrize("config", ASKS.values(), ids=ASKS.keys())
def test_who_asks_in_any_way_is_refused_with_cause_line_and_remedy(
    scene: Scene, config: dict[str, Any], breaking: Callable[[Path], object], finding: str, text: str
) -> None:
    breaking(scene.settings)
    scene.write(config)
    before = scene.config.read_bytes()
    done = scene.create("log-format=json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"shim: {finding}: {scene.settings}{text}")
    assert done.stderr.count("\n") == 1
    assert json.loads(scene.log.read_text())["msg"] == done.stderr.rstrip("\n")
    assert scene.config.read_bytes() == before


@pytest.mark.parametrize("breaking", [one[0] for one in BREAK.values()], ids=BREAK.keys())
@pytest.mark.parametrize("config", ASKS_FOR_NOTHING.values(), ids=ASKS_FOR_NOTHING.keys())
def test_who_asks_for_nothing_starts(scene: Scene, config: dict[str, Any], breaking: Callable[[Path], object]) -> None:
    breaking(scene.settings)
    scene.write(config)
    before = scene.config.read_bytes()
    done = scene.create()
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    assert scene.config.read_bytes() == before


@pytest.mark.rootful
@pytest.mark.parametrize("config", ASKS_BY_A_NAME_OF_THE_CONFIGURATION.values())
@pytest.mark.parametrize("breaking", [one[0] for one in BREAK.values()], ids=BREAK.keys())
def test_names_of_the_configuration_that_counted_last_still_ask(
    scene: Scene, config: dict[str, Any], breaking: Callable[[Path], object]
) -> None:
    """They stand in the index of this boot."""
    time.sleep(0.2)  # what has just changed leaves no index
    scene.write({})
    assert scene.create().stdout == "reached\n"
    breaking(scene.settings)
    scene.write(config)
    assert scene.create().stderr.startswith("shim: SETTINGS")


@pytest.mark.parametrize("config", ASKS_BY_A_NAME_OF_THE_CONFIGURATION.values())
def test_without_an_index_the_good_values_of_a_file_are_known(scene: Scene, config: dict[str, Any]) -> None:
    """A typing error hides them: such a container starts, since nothing is known by which it could be said to ask."""
    scene.write(config)
    good = scene.settings.read_text()
    for name, refused in (("one bad value elsewhere", True), ("a typing error", False)):
        scene.settings.write_text(good)
        BREAK[name][0](scene.settings)
        assert (scene.create().returncode == 1) == refused, name


def test_a_config_json_that_is_no_json_is_refused_where_it_names_a_source(scene: Scene) -> None:
    BREAK["a typing error"][0](scene.settings)
    for text, reached in (("{", True), ('{"process": {"env": ["NVIDIA_VISIBLE_DEVICES=0"', False)):
        scene.write(text)
        assert (scene.create().stdout == "reached\n") == reached


@pytest.mark.rootful
def test_the_index_of_the_scene_is_the_one_that_is_asked(scene: Scene) -> None:
    """Else the tests above that break a good configuration would not know whether there is an index."""
    time.sleep(0.2)
    scene.write({})
    path = Path(location.index_path(str(scene.settings)))
    assert not path.exists()
    scene.create()
    assert path.exists()
