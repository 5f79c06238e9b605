"""The recipe as a whole: the launcher's words go in, the low-level runtime comes out.

Started as the launcher starts it, with /bin/sh in place of the low-level runtime, which tells that it was reached.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SPEC = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}],
}
ASKING = {"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}}
ID = "c1"
SANDBOX = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": ID}


class Scene:
    """A bundle, a spec directory and a configuration below one directory."""

    def __init__(self, directory: Path, modules: Path) -> None:
        self.specs, self.bundle, self.log = directory / "cdi", directory / "bundle", directory / "log"
        self.specs.mkdir()
        self.bundle.mkdir()
        self.config = self.bundle / "config.json"
        (self.specs / "gpu.json").write_text(json.dumps(SPEC))
        self.settings = directory / "config.toml"
        self.story = directory / "story"
        self.settings.write_text(
            f'log.file = "{self.story}"\n[cdi]\nspec-dirs = ["{self.specs}"]\ndefault-kind = "acme.example/gpu"\n'
        )
        self._main = modules / "shim" / "__main__.py"

    def write(self, config: Any) -> None:
        self.config.write_text(config if isinstance(config, str) else json.dumps(config))

    def create(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One create; standard output says "reached" when it came to the low-level runtime."""
        said = ["low=/bin/sh", "name=shim", "self=/x/shim", "verb=create", f"bundle={self.bundle}"]
        said += [f"id={ID}", f"log={self.log}"]
        low = ["sh", "-c", "echo reached"]
        command = [sys.executable, "-I", "-S", "-B", str(self._main), "create", *said, *words, "--", *low]
        environment = {**os.environ, "SHIM_CONFIG": str(self.settings)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def scene(trusted_path: Path, modules: Path) -> Scene:
    return Scene(trusted_path, modules)


def _env(scene: Scene) -> Any:
    return json.loads(scene.config.read_text())["process"]["env"]


ASKED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "by annotation": (ASKING, ()),
    "by option": ({}, ("device=acme.example/gpu=0",)),
    "by option with a bare name": ({}, ("device=0",)),
    "twice": (ASKING, ("device=0", "device=acme.example/gpu=0")),
}


@pytest.mark.parametrize(("config", "words"), ASKED.values(), ids=ASKED.keys())
def test_what_is_asked_for_is_injected_once_and_the_low_level_runtime_follows(
    scene: Scene, config: dict[str, Any], words: tuple[str, ...]
) -> None:
    scene.write({**config, "x-unknown": [1]})
    done = scene.create(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    assert _env(scene) == ["GPU=0"]
    assert json.loads(scene.config.read_text())["x-unknown"] == [1]
    assert not scene.log.exists()


def test_b12_a_bundle_keeps_what_an_earlier_create_was_asked_for(scene: Scene) -> None:
    """As docs/create.md says. Engines call create, with a config.json of their own for each start."""
    two = [{"name": name, "containerEdits": {"env": [f"GPU{name}=1"]}} for name in ("0", "1")]
    (scene.specs / "gpu.json").write_text(json.dumps({**SPEC, "devices": two}))
    scene.write({})
    for words, env in ((["device=0"], ["GPU0=1"]), ([], ["GPU0=1"]), (["device=1"], ["GPU0=1", "GPU1=1"])):
        assert scene.create(*words).stdout == "reached\n"
        assert _env(scene) == env


def test_a_process_that_a_config_lacks_is_made_as_a_whole(scene: Scene) -> None:
    """Its environment alone came: a decision names what changes, and what a new process must hold was not named."""
    for given in ({}, {"process": None}):
        scene.write({**ASKING, **given})
        assert scene.create().returncode == 0
        process = json.loads(scene.config.read_text())["process"]
        assert process == {"user": {"uid": 0, "gid": 0}, "cwd": "", "env": ["GPU=0"]}


UNASKED: dict[str, Any] = {
    "nothing asks": {},
    "a sandbox with its pod's annotation": {"annotations": {**ASKING["annotations"], **SANDBOX}},
    "not JSON, which the low-level runtime says better": "{",
    "not even an object": "[]",
}


@pytest.mark.parametrize("config", UNASKED.values(), ids=UNASKED.keys())
def test_where_nothing_asks_the_file_is_not_touched(scene: Scene, config: Any) -> None:
    scene.write(config)
    before = (scene.config.read_bytes(), scene.config.stat())
    done = scene.create()
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    after = (scene.config.read_bytes(), scene.config.stat())
    assert (before[0], before[1].st_ino, before[1].st_mtime_ns) == (after[0], after[1].st_ino, after[1].st_mtime_ns)


def test_where_nothing_asks_a_missing_config_is_left_to_the_low_level_runtime(scene: Scene) -> None:
    assert scene.create().stdout == "reached\n"


def test_where_nothing_asks_a_broken_configuration_stops_nobody(scene: Scene) -> None:
    scene.settings.write_text("cdi = [")
    scene.write({})
    assert scene.create().stdout == "reached\n"


def test_where_nothing_asks_an_unknown_option_stops_nobody(scene: Scene) -> None:
    scene.write({})
    assert scene.create("unknown=--new").stdout == "reached\n"


REFUSED: dict[str, tuple[Any, tuple[str, ...], str, str]] = {
    "a device that nobody serves": ({}, ("device=7",), "DEVICE_UNKNOWN", "acme.example/gpu=7"),
    "one of two that nobody serves": (ASKING, ("device=7",), "DEVICE_UNKNOWN", "acme.example/gpu=7"),
    "a word that is no device": ({}, ("device=/dev/null",), "DEVICE_NAME", "/dev/null"),
    "an annotation that is no list of names": (
        {"annotations": {"cdi.k8s.io/x": "all gpus"}},
        (),
        "ANNOTATION_INVALID",
        "all gpus",
    ),
    "an option in front of the verb that nobody knows": (ASKING, ("unknown=--new",), "OPTION_UNKNOWN", "--new"),
    "an option, and a config that is no JSON": ("{", ("device=0",), "CONFIG_JSON", "config.json"),
    "an annotation in a config that is no JSON": ('{"annotations":{"cdi.k8s.io/x":', (), "CONFIG_JSON", "config.json"),
    "a process that is no object": ({**ASKING, "process": []}, (), "CONFIG_JSON", "process"),
}


@pytest.mark.parametrize(("config", "words", "finding", "named"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_given_is_refused_in_one_line_and_changes_nothing(
    scene: Scene, config: Any, words: tuple[str, ...], finding: str, named: str
) -> None:
    scene.write(config)
    before = scene.config.read_bytes()
    done = scene.create(*words, "log-format=json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"shim: {finding}: ")
    assert done.stderr.count("\n") == 1
    assert named in done.stderr
    log = json.loads(scene.log.read_text())
    assert log["level"] == "error"
    assert log["msg"] == done.stderr.rstrip("\n")
    assert scene.config.read_bytes() == before
    assert os.listdir(scene.bundle) == ["config.json"]


def test_an_unknown_device_is_explained(scene: Scene) -> None:
    """Directories searched, files refused with line and reason, nearest names: pain of every CDI user."""
    (scene.specs / "bad.yaml").write_text('cdiVersion: "0.6.0"\nkind: acme.example/gpu\ndevice: []\n')
    scene.write({})
    text = scene.create("device=acme.example/gpu=1").stderr
    assert "acme.example/gpu=1" in text
    assert "acme.example/gpu=0" in text
    assert str(scene.specs) in text
    assert f"{scene.specs}/bad.yaml:3: " in text


def test_a_broken_configuration_stops_who_asks(scene: Scene) -> None:
    scene.settings.write_text("cdi = [")
    scene.write({"annotations": {"cdi.k8s.io/x": "acme.example/gpu=0"}})
    done = scene.create()
    assert done.returncode == 1
    assert done.stderr.startswith(f"shim: SETTINGS: {scene.settings}: ")


def test_a_key_of_the_configuration_that_means_nothing_is_a_warning(scene: Scene) -> None:
    scene.settings.write_text(scene.settings.read_text() + 'speed = "high"\n')
    scene.write(ASKING)
    done = scene.create()
    assert (done.stdout, done.stderr) == ("reached\n", "")
    [finding] = json.loads(scene.story.read_text())["findings"]
    assert finding["id"] == "SETTINGS_UNKNOWN_KEY"
    assert "cdi.speed" in finding["text"]


def test_a_low_level_runtime_that_cannot_be_executed_is_named(scene: Scene) -> None:
    scene.write(ASKING)
    done = scene.create("low=/etc/passwd")
    assert done.returncode == 1
    assert done.stderr.startswith("shim: LOWLEVEL_EXEC: the low-level runtime /etc/passwd ")


def test_a_defect_of_ours_is_one_line_with_its_place(scene: Scene, modules: Path) -> None:
    scene.write(ASKING)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _WITH_DEFECT, str(modules), f"bundle={scene.bundle}", str(scene.settings)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("shim: INTERNAL: ZeroDivisionError: ")
    assert done.stderr.count("\n") == 1


_WITH_DEFECT = """
import sys
sys.path.insert(0, sys.argv[1])
from posix import environ
environ[b"SHIM_CONFIG"] = sys.argv[3].encode()
from shim import create
create.merge.add = lambda *words: 1 / 0
create.main(["low=/bin/true", "name=shim", "self=/x", "verb=create", sys.argv[2], "--", "true"])
"""


def test_signals_that_python_ignores_are_put_back(scene: Scene) -> None:
    """SIGPIPE ignored by Python would stay ignored in every container started by crun."""
    scene.write(ASKING)
    script = "low=/bin/sh", "--", "sh", "-c", "grep SigIgn /proc/self/status"
    said = ["name=shim", "self=/x/shim", "verb=create", f"bundle={scene.bundle}"]
    for words, ignored in (([], 0), (["sigign=PIPE,XFSZ"], (1 << 12) | (1 << 24))):
        command = [sys.executable, "-I", "-S", "-B", str(scene._main), "create", *said, *words, *script]
        environment = {**os.environ, "SHIM_CONFIG": str(scene.settings)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        assert int(done.stdout.split()[1], 16) & ((1 << 12) | (1 << 24)) == ignored


# --- compatibility sources ---

DRIVER = {
    "cdiVersion": "0.6.0",
    "kind": "nvidia.com/gpu",
    "containerEdits": {"env": ["DRIVER=1", "NVIDIA_VISIBLE_DEVICES=void"]},
    "devices": [{"name": name, "containerEdits": {"env": [f"GPU={name}"]}} for name in ("0", "1", "all")],
}
OFF, PRIVILEGED, ANY = (
    "",
    '[sources]\nenvironment = "privileged"\n',
    '[sources]\nenvironment = "any"\nmounts = "any"\n',
)
MOUNT = {"destination": "/var/run/nvidia-container-devices/1", "source": "/dev/null", "type": "bind"}


def _image(value: str, *capabilities: str) -> dict[str, Any]:
    env = ["NVIDIA_VISIBLE_DEVICES=first", "PATH=/bin", f"NVIDIA_VISIBLE_DEVICES={value}"]
    return {"process": {"env": env, "capabilities": {"bounding": list(capabilities)}}}


@pytest.fixture
def vendor(scene: Scene) -> Scene:
    (scene.specs / "nvidia.json").write_text(json.dumps(DRIVER))
    return scene


HEARD: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "an index": (ANY, _image("0"), ["GPU=0"]),
    "all": (ANY, _image("all"), ["GPU=all"]),
    "none gives the files of the driver without a device": (ANY, _image("none"), []),
    "a privileged container": (PRIVILEGED, _image("1", "CAP_SYS_ADMIN"), ["GPU=1"]),
}


@pytest.mark.parametrize(("sources", "config", "given"), HEARD.values(), ids=HEARD.keys())
def test_a_variable_asks_where_the_configuration_says_so_and_stands_there_once_afterwards(
    vendor: Scene, sources: str, config: dict[str, Any], given: list[str]
) -> None:
    """Two entries of one name would be read as the first by some programs, as the last by others."""
    vendor.settings.write_text(vendor.settings.read_text() + sources)
    vendor.write(config)
    done = vendor.create()
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    assert _env(vendor) == ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=void", "DRIVER=1", *given]
    before = vendor.config.read_bytes()
    assert vendor.create().stdout == "reached\n"
    assert vendor.config.read_bytes() == before


def test_a_mount_asks_where_the_configuration_says_so_and_stays(vendor: Scene) -> None:
    vendor.settings.write_text(vendor.settings.read_text().replace("acme.example", "nvidia.com") + ANY)
    vendor.write({"mounts": [MOUNT]})
    assert vendor.create().stdout == "reached\n"
    assert _env(vendor) == ["DRIVER=1", "NVIDIA_VISIBLE_DEVICES=void", "GPU=1"]
    assert json.loads(vendor.config.read_text())["mounts"] == [MOUNT]


@pytest.mark.parametrize("value", ["0", "all", "none", "$(id)", "7"])
def test_s09_sources_that_an_image_can_write_to_are_off(vendor: Scene, value: str) -> None:
    """The positive control is the test above: the same container, one line of configuration more."""
    vendor.write({**_image(value, "CAP_SYS_ADMIN"), "mounts": [MOUNT]})
    before = vendor.config.read_bytes()
    done = vendor.create()
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    assert vendor.config.read_bytes() == before


@pytest.mark.parametrize("value", ["all", "$(id)", "7"])
def test_s09_an_unprivileged_container_starts_without_and_the_log_says_so(vendor: Scene, value: str) -> None:
    vendor.settings.write_text(vendor.settings.read_text() + PRIVILEGED)
    vendor.write(_image(value, "CAP_NET_ADMIN"))
    before = vendor.config.read_bytes()
    done = vendor.create()
    assert (done.returncode, done.stdout, done.stderr) == (0, "reached\n", "")
    assert [finding["id"] for finding in json.loads(vendor.story.read_text())["findings"]] == ["SOURCE_UNPRIVILEGED"]
    assert not vendor.log.exists()
    assert vendor.config.read_bytes() == before


IN_VAIN: dict[str, tuple[str, str]] = {
    "a device that nobody serves": ("7", "DEVICE_UNKNOWN"),
    "the driver of a kind that nobody has": ("none", "DEVICE_UNKNOWN"),
    "a value that names no device": ("$(id)", "SOURCE_VALUE"),
}


@pytest.mark.parametrize(("value", "finding"), IN_VAIN.values(), ids=IN_VAIN.keys())
def test_who_asks_by_a_variable_that_counts_never_starts_without(scene: Scene, value: str, finding: str) -> None:
    scene.settings.write_text(scene.settings.read_text() + ANY)
    scene.write(_image(value))
    before = scene.config.read_bytes()
    done = scene.create()
    assert done.returncode == 1
    assert done.stderr.startswith(f"shim: {finding}: ")
    assert scene.config.read_bytes() == before


def test_a_variable_in_a_config_that_is_no_json_is_a_request_that_cannot_be_read(vendor: Scene) -> None:
    vendor.write('{"process": {"env": ["NVIDIA_VISIBLE_DEVICES=0"')
    assert vendor.create().stdout == "reached\n"
    vendor.settings.write_text(vendor.settings.read_text() + ANY)
    assert vendor.create().stderr.startswith("shim: CONFIG_JSON: ")


def test_a_sandbox_asks_by_no_variable_either(vendor: Scene) -> None:
    vendor.settings.write_text(vendor.settings.read_text() + ANY)
    vendor.write({**_image("$(id)"), "annotations": SANDBOX})
    done = vendor.create()
    assert (done.stdout, done.stderr) == ("reached\n", "")


def test_an_untrusted_configuration_stops_who_asks_and_nobody_else(scene: Scene) -> None:
    scene.settings.chmod(0o666)
    scene.write({})
    assert scene.create().stdout == "reached\n"
    scene.write(ASKING)
    done = scene.create()
    assert done.returncode == 1
    assert done.stderr.startswith(f"shim: SETTINGS_UNTRUSTED: {scene.settings}: ")
    scene.settings.chmod(0o644)
    assert scene.create().stdout == "reached\n"


def test_an_existing_configuration_of_nvidias_toolkit_is_understood(vendor: Scene) -> None:
    vendor.settings = vendor.settings.parent / "nvidia-container-runtime" / "config.toml"
    vendor.settings.parent.mkdir()
    specs = f'[nvidia-container-runtime.modes.cdi]\nspec-dirs = ["{vendor.specs}"]\n'
    vendor.settings.write_text(specs)
    vendor.write(_image("0"))
    before = vendor.config.read_bytes()
    assert vendor.create().stdout == "reached\n"
    assert vendor.config.read_bytes() == before
    vendor.settings.write_text(f"accept-nvidia-visible-devices-envvar-when-unprivileged = true\n{specs}")
    assert vendor.create().stdout == "reached\n"
    assert "GPU=0" in _env(vendor)
