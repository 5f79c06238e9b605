"""`shim explain`: of a bundle before create, of a container by its record; it says what create does, and writes not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim import __version__
from shim.create import record_files

KIND = "acme.example/gpu"
SPEC = {
    "cdiVersion": "0.7.0",
    "kind": KIND,
    "containerEdits": {
        "env": ["DRIVER=1", "MODE=spec"],
        "mounts": [{"hostPath": "/usr/share", "containerPath": "/usr/share", "options": ["ro", "bind"]}],
        "hooks": [
            {"hookName": "createContainer", "path": "/bin/true", "args": ["true"], "env": ["LD_PRELOAD=x", "A=1"]}
        ],
    },
    "devices": [
        {
            "name": "0",
            "containerEdits": {"env": ["GPU=0"], "deviceNodes": [{"path": "/dev/null"}], "additionalGids": [44]},
        },
        {"name": "1", "containerEdits": {"env": ["GPU=1"]}},
    ],
}
ASKING = {"cdi.k8s.io/x": f"{KIND}=0"}


class Scene:
    """A bundle, a spec directory, a configuration; everything through the installed launcher."""

    def __init__(self, directory: Path, launcher: Path, modules: Path) -> None:
        self.specs, self.bundle = directory / "cdi", directory / "bundle"
        self.specs.mkdir()
        self.bundle.mkdir()
        self.config = self.bundle / "config.json"
        self.spec = self.specs / "gpu.json"
        self.spec.write_text(json.dumps(SPEC))
        self.settings = directory / "config.toml"
        self.settings.write_text(f'[log]\nfile = ""\n[cdi]\nspec-dirs = ["{self.specs}"]\ndefault-kind = "{KIND}"\n')
        self._launcher = launcher
        self._main = modules / "shim" / "__main__.py"
        self.id = f"explain-test-{os.getpid()}"

    def write(self, annotations: Any = None, env: tuple[str, ...] = (), **more: Any) -> None:
        config = {"annotations": annotations or {}, "process": {"env": ["PATH=/bin", *env], "cwd": "/"}, **more}
        self.config.write_text(json.dumps(config))

    def run(self, *words: str | Path, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        path = f"{self._launcher.parent}:{os.environ['PATH']}"
        environment = {**os.environ, "SHIM_CONFIG": str(self.settings), "PATH": path, "COLUMNS": "80"}
        command: list[str | Path] = [self._launcher, "explain", *words]
        return subprocess.run(command, stdin=stdin, capture_output=True, text=True, env=environment, check=False)

    def explain(self, *words: str) -> Any:
        """What is said of the bundle; the bundle is as before."""
        before = (self.config.read_bytes(), self.config.stat().st_mtime_ns, sorted(os.listdir(self.bundle)))
        done = self.run("--bundle", self.bundle, "-o", "json", *words)
        assert (self.config.read_bytes(), self.config.stat().st_mtime_ns, sorted(os.listdir(self.bundle))) == before
        found = json.loads(done.stdout)
        assert done.returncode == (1 if found["refused"] else 0)
        return found

    def create(self, name: str = "shim", root: str = "/r", low: str = "/bin/true") -> subprocess.CompletedProcess[str]:
        said = [f"low={low}", f"self={self._launcher}", "verb=create", f"bundle={self.bundle}", f"id={self.id}"]
        said += [f"name={name}", f"root={root}", f"key={record_files.key(name, root, self.id)}"]
        command = [sys.executable, "-I", "-S", "-B", str(self._main), "create", *said, "--", "true"]
        environment = {**os.environ, "SHIM_CONFIG": str(self.settings)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def env(self) -> Any:
        return json.loads(self.config.read_text())["process"]["env"]


@pytest.fixture
def scene(trusted_path: Path, installed: Path, modules: Path) -> Iterator[Scene]:
    made = Scene(trusted_path, installed, modules)
    yield made
    for name, root in (("shim", "/r"), ("shim-crun", "/r"), ("shim", "/other")):
        Path(record_files.directory(), record_files.key(name, root, made.id)).unlink(missing_ok=True)


def _told(found: Any, *members: str) -> list[tuple[Any, ...]]:
    return [tuple(edit[member] for member in members) for edit in found["edits"]]


# --- a bundle ---


@pytest.mark.rootful
def test_each_edit_is_told_with_its_spec_its_device_and_its_state(scene: Scene) -> None:
    scene.write(ASKING)
    found = scene.explain()
    assert found["devices"] == [{"name": f"{KIND}=0", "source": "annotation cdi.k8s.io/x"}]
    assert found["configuration"] == str(scene.settings)
    assert {edit["spec"] for edit in found["edits"]} == {str(scene.spec)}
    assert _told(found, "kind", "device", "state") == [
        ("env", None, "added"),
        ("env", None, "added"),
        ("mounts", None, "added"),
        ("hooks", None, "added"),
        ("env", "0", "added"),
        ("deviceNodes", "0", "added"),
        ("additionalGids", "0", "added"),
    ]


def test_what_create_makes_of_an_edit_stands_beside_what_the_spec_asks_for(scene: Scene) -> None:
    scene.write(ASKING)
    [hook] = [edit for edit in scene.explain()["edits"] if edit["kind"] == "hooks"]
    assert hook["asked"]["env"] == ["LD_PRELOAD=x", "A=1"]
    assert (hook["item"]["env"], hook["item"]["timeout"]) == (["A=1"], 120)
    shown = scene.run("--bundle", scene.bundle)
    assert "hook createContainer /bin/true with A=1, at most 120 s [by rule: env, timeout]" in " ".join(
        shown.stdout.split()
    )
    assert "HOOK_ENVIRONMENT" in shown.stderr


@pytest.mark.rootful
def test_what_is_said_is_what_create_does(scene: Scene) -> None:
    scene.write(ASKING, ("MODE=image", "GPU=0"))
    found = scene.explain()
    states = {edit["item"]: edit["state"] for edit in found["edits"] if edit["kind"] == "env"}
    assert states == {"DRIVER=1": "added", "MODE=spec": "replaces", "GPU=0": "there already"}
    assert scene.create().returncode == 0
    assert scene.env() == ["PATH=/bin", "MODE=spec", "GPU=0", "DRIVER=1"]
    assert {state for (state,) in _told(scene.explain(), "state")} == {"there already"}


def test_an_edit_that_a_later_one_overrides_is_told(scene: Scene) -> None:
    scene.write({"cdi.k8s.io/x": f"{KIND}=0,{KIND}=1"})
    states = {edit["item"]: edit["state"] for edit in scene.explain()["edits"] if edit["kind"] == "env"}
    assert (states["GPU=0"], states["GPU=1"]) == ("overridden", "added")


def test_devices_can_be_asked_for_beyond_what_the_bundle_asks(scene: Scene) -> None:
    scene.write(ASKING)
    found = scene.explain("--device", "1")
    assert [(one["name"], one["source"]) for one in found["devices"]] == [
        (f"{KIND}=1", "--device"),
        (f"{KIND}=0", "annotation cdi.k8s.io/x"),
    ]


def test_all_edits_that_are_refused_are_told_not_the_first_alone(scene: Scene) -> None:
    bad = {"mounts": [{"hostPath": "/usr", "containerPath": path} for path in ("/proc/x", "/ok", "/sys/y")]}
    scene.spec.write_text(json.dumps({**SPEC, "containerEdits": bad}))
    scene.write(ASKING)
    found = scene.explain()
    assert found["refused"] is True
    assert [state for kind, state in _told(found, "kind", "state") if kind == "mounts"] == [
        "refused",
        "added",
        "refused",
    ]
    assert [one["id"] for one in found["findings"]] == ["TARGET_FORBIDDEN"] * 2
    assert scene.create().returncode == 1


REFUSED: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "a device that nobody serves": ({"cdi.k8s.io/x": f"{KIND}=7"}, (), "DEVICE_UNKNOWN"),
    "a name that is none": (None, ("--device", "/dev/null"), "DEVICE_NAME"),
    "an annotation that is no list of names": ({"cdi.k8s.io/x": "all"}, (), "ANNOTATION_INVALID"),
}


@pytest.mark.parametrize(("annotations", "words", "finding"), REFUSED.values(), ids=REFUSED.keys())
def test_what_would_be_refused_is_exit_status_1(
    scene: Scene, annotations: Any, words: tuple[str, ...], finding: str
) -> None:
    scene.write(annotations)
    found = scene.explain(*words)
    assert found["refused"] is True
    assert finding in [one["id"] for one in found["findings"]]
    assert "A create of this bundle is refused." in scene.run("--bundle", scene.bundle, *words).stdout


def test_a_broken_configuration_refuses_who_asks_only(scene: Scene) -> None:
    scene.settings.write_text("cdi = [")
    for asking, text in (({}, "a create leaves this bundle alone"), (ASKING, "is refused")):
        scene.write(asking)
        done = scene.run("--bundle", scene.bundle)
        assert done.returncode == 1
        assert text in done.stdout
        assert done.stderr.count("ERROR SETTINGS: ") == 1
        assert scene.create().returncode == (1 if asking else 0)


def test_a_bundle_without_a_config_is_said_to_be_one(scene: Scene) -> None:
    done = scene.run("--bundle", scene.bundle)
    assert done.returncode == 1
    assert "CONFIG_JSON" in done.stderr


def test_where_nothing_asks_that_is_said(scene: Scene) -> None:
    scene.write()
    done = scene.run("--bundle", scene.bundle)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "Nothing asks for a device: a create leaves this bundle alone.\n",
        "",
    )


def test_a_sandbox_is_left_alone(scene: Scene) -> None:
    """By its id, which stands in the path of the bundle of each engine."""
    sandbox = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": scene.bundle.name}
    scene.write({**ASKING, **sandbox, "io.kubernetes.cri.sandbox-id": "another"})
    assert not scene.explain()["sandbox"]
    scene.write({**ASKING, **sandbox})
    assert "sandbox" in scene.run("--bundle", scene.bundle).stdout
    found = scene.explain()
    assert (found["sandbox"], found["devices"], found["edits"]) == (True, [], [])


def test_a_request_that_only_the_pod_has_is_named_under_crio(scene: Scene) -> None:
    """Explain is called by no engine, so it takes the engine from config.json."""
    own = "io.kubernetes.cri-o.Annotations"
    scene.write({**ASKING, "io.container.manager": "cri-o", own: "{}"})
    found = scene.explain()
    assert (found["devices"], found["refused"]) == ([], False)
    assert [finding["id"] for finding in found["findings"]] == ["REQUEST_IGNORED"]
    scene.write({**ASKING, "io.container.manager": "cri-o", own: json.dumps(ASKING)})
    assert [device["name"] for device in scene.explain()["devices"]] == [f"{KIND}=0"]


def test_a_request_that_an_image_of_podmans_may_have_written_is_refused(scene: Scene) -> None:
    """By the podman of PATH, which is not recorded here."""
    scene.write({**ASKING, "io.container.manager": "libpod"})
    found = scene.explain()
    assert found["refused"]
    assert [finding["id"] for finding in found["findings"]] == ["REQUEST_ORIGIN"]
    assert "podman" in found["findings"][0]["text"]


def test_a_variable_that_asks_in_vain_is_named_with_both_remedies(scene: Scene) -> None:
    """The complaint: a container with NVIDIA_VISIBLE_DEVICES=all starts, and has no device."""
    scene.write(None, ("NVIDIA_VISIBLE_DEVICES=all",))
    done = scene.run("--bundle", scene.bundle)
    assert done.returncode == 0
    assert "NOTE SOURCE_OFF: variable NVIDIA_VISIBLE_DEVICES asks for nvidia.com/gpu=all" in done.stderr
    assert "--device" in done.stderr
    assert 'sources.environment to "privileged"' in done.stderr


def test_a_variable_that_asks_is_named_as_the_source(scene: Scene) -> None:
    more = f'[sources]\nenvironment = "any"\nvariables = {{GPUS = "{KIND}"}}\n'
    scene.settings.write_text(scene.settings.read_text() + more)
    scene.write(None, ("GPUS=none",))
    found = scene.explain()
    assert found["devices"] == [{"name": f"{KIND}=none", "source": "variable GPUS"}]
    assert {device for (device,) in _told(found, "device")} == {None}
    assert found["findings"][0]["id"] == "HOOK_ENVIRONMENT"


@pytest.mark.rootful
def test_the_table_is_for_people(scene: Scene) -> None:
    scene.write(ASKING)
    lines = [" ".join(line.split()) for line in scene.run("--bundle", scene.bundle).stdout.splitlines()]
    assert lines[:2] == ["DEVICE ASKED FOR BY", f"{KIND}=0 annotation cdi.k8s.io/x"]
    assert [line for line in lines if line.startswith(str(scene.spec))] == [
        f"{scene.spec}, all devices",
        f"{scene.spec}, device 0",
    ]
    assert lines[3] == "added variable DRIVER=1"
    assert lines[-2:] == ["added node /dev/null c 1:3 mode 0666", "added group 44"]


def test_d1_explain_padded_each_line_to_the_longest_hook(scene: Scene) -> None:
    """A hook with 29 links made each line of the table more than 1000 columns wide, with its spec at the end."""
    links = [f"libvendor-{number}.so.550.54.15::/usr/lib/libvendor-{number}.so.1" for number in range(29)]
    args = ["true", "create-symlinks", *(word for link in links for word in ("--link", link))]
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    spec["containerEdits"]["hooks"] = [{"hookName": "createContainer", "path": "/bin/true", "args": args}]
    scene.spec.write_text(json.dumps(spec))
    scene.write(ASKING)
    lines = scene.run("--bundle", scene.bundle).stdout.splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    assert not [line for line in lines if len(line) > 80 and line.startswith(" ") and len(line.split()) > 2]
    assert [link for link in links if not any(f"--link {link}" in line for line in lines)] == []
    wide = scene.run("--bundle", scene.bundle, "-o", "wide").stdout.splitlines()
    [hook] = [line for line in wide if " hook " in line]
    assert hook.startswith("added ")
    assert f"{scene.spec}, all devices" in hook
    assert f"--link {links[-1]} with PATH=" in hook


# --- a container ---


@pytest.mark.rootful
def test_a_container_is_explained_by_its_record(scene: Scene) -> None:
    scene.write(ASKING, ("MODE=image",))
    assert scene.create().returncode == 0
    done = scene.run(scene.id, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["id"], found["name"], found["root"], found["holds"]) == (scene.id, "shim", "/r", True)
    assert (found["bundle"], found["config"]) == (str(scene.bundle), str(scene.config))
    assert found["wanted"] == {f"{KIND}=0": "annotation cdi.k8s.io/x"}
    assert found["env"]["MODE"] == ["spec", "image"]
    assert {state for (state,) in _told(found, "state")} == {"there already"}
    assert len(found["edits"]) == 7
    shown = scene.run(scene.id[:-1]).stdout
    assert "annotation cdi.k8s.io/x" in shown
    assert "exec adds no variables" not in shown


@pytest.mark.rootful
def test_what_an_engine_took_away_since_is_told(scene: Scene) -> None:
    scene.write(ASKING)
    scene.create()
    config = json.loads(scene.config.read_text())
    config["process"]["env"].remove("GPU=0")
    scene.config.write_text(json.dumps(config))
    found = json.loads(scene.run(scene.id, "-o", "json").stdout)
    assert found["holds"] is False
    assert [edit["item"] for edit in found["edits"] if edit["state"] == "missing"] == ["GPU=0"]
    assert "exec adds no variables" in scene.run(scene.id).stdout


@pytest.mark.rootful
def test_what_create_warned_of_is_explained_afterwards(scene: Scene) -> None:
    """Warnings went to stderr, which engines make the container's own output, and explain of a container had none."""
    hooks = [{"hookName": "poststop", "path": "/bin/true"}]
    scene.spec.write_text(json.dumps({**SPEC, "containerEdits": {"hooks": hooks}}))
    scene.write({"cdi.k8s.io/x": "acme.example/gpu=0"})
    assert scene.create().stderr == ""
    found = json.loads(scene.run(scene.id, "-o", "json").stdout)
    assert [finding["id"] for finding in found["findings"]] == ["HOOK_STAGE"]


@pytest.mark.rootful
def test_two_containers_of_one_id_are_told_apart_by_root_and_name(scene: Scene) -> None:
    for name, root in (("shim", "/r"), ("shim-crun", "/r"), ("shim", "/other")):
        scene.write(ASKING)
        scene.create(name, root)
    done = scene.run(scene.id)
    assert done.returncode == 1
    assert "RECORD_MISSING" in done.stderr
    assert f"{scene.id} (--name shim-crun --root '/r')" in done.stderr
    assert (
        json.loads(scene.run(scene.id, "--root", "/r", "--name", "shim-crun", "-o", "json").stdout)["name"]
        == "shim-crun"
    )
    assert json.loads(scene.run(scene.id, "--root", "/other", "-o", "json").stdout)["root"] == "/other"


@pytest.mark.rootful
def test_a_container_whose_bundle_is_gone_is_explained_as_it_was(scene: Scene) -> None:
    scene.write(ASKING)
    scene.create()
    scene.config.unlink()
    done = scene.run(scene.id, "-o", "json")
    assert json.loads(done.stdout)["holds"] is False
    assert "CONFIG_JSON" in done.stderr


def test_a_container_without_a_record_is_said_to_have_none(scene: Scene) -> None:
    scene.write()
    scene.create()
    done = scene.run(scene.id)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ERROR RECORD_MISSING" in done.stderr
    assert "shim has injected nothing" in done.stderr


def test_b23_an_unknown_name_in_two_keys_is_one_finding(scene: Scene) -> None:
    scene.write({"cdi.k8s.io/a": f"{KIND}=7", "cdi.k8s.io/b": f"{KIND}=7"})
    found = scene.explain()
    assert [finding["id"] for finding in found["findings"]] == ["DEVICE_UNKNOWN"]


NAMES: dict[str, dict[str, str]] = {
    "containerd": {
        "io.kubernetes.cri.sandbox-namespace": "prod",
        "io.kubernetes.cri.sandbox-name": "web",
        "io.kubernetes.cri.container-name": "app",
    },
    "CRI-O": {
        "io.kubernetes.pod.namespace": "prod",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.container.name": "app",
    },
}


@pytest.mark.rootful
@pytest.mark.parametrize("annotations", NAMES.values(), ids=NAMES.keys())
def test_d8_a_container_is_found_by_the_name_that_a_cri_engine_gives_it(
    scene: Scene, annotations: dict[str, str]
) -> None:
    """Only ids were taken, which nobody knows by heart."""
    scene.write({**ASKING, **annotations}, env=("CRI_O_EXTERNAL=1",) if "io.kubernetes.pod.name" in annotations else ())
    assert scene.create().returncode == 0
    for name in ("app", "web/app", "prod/web/app"):
        assert json.loads(scene.run(name, "-o", "json").stdout)["id"] == scene.id
    for name in ("pp", "prod/app", "web", "prod"):
        assert "RECORD_MISSING" in scene.run(name).stderr
    scene.create("shim-crun")
    done = scene.run("app")
    assert done.returncode == 1
    assert f"{scene.id} (prod/web/app, --name shim-crun --root '/r')" in done.stderr


@pytest.mark.rootful
def test_d8_the_containers_with_a_record_are_listed(scene: Scene) -> None:
    scene.write({**ASKING, **NAMES["containerd"]})
    scene.create()
    done = scene.run("--list")
    assert done.returncode == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith(scene.id)]
    assert row == [scene.id, "prod/web/app", f"{KIND}=0"]
    (entry,) = [one for one in json.loads(scene.run("--list", "-o", "json").stdout) if one["id"] == scene.id]
    assert (entry["label"], entry["holds"], list(entry["wanted"])) == ("prod/web/app", True, [f"{KIND}=0"])
    assert scene.run("--list", scene.id).returncode == 2


def test_d8_a_name_of_docker_is_no_id_and_the_way_to_it_is_told(scene: Scene) -> None:
    done = scene.run("sleepy_turing")
    assert "docker inspect -f '{{.Id}}' NAME" in done.stderr
    assert "shim explain --list" in done.stderr


@pytest.mark.rootful
def test_records_that_are_none_are_passed_over(scene: Scene) -> None:
    scene.write(ASKING)
    scene.create()
    place = Path(record_files.directory())
    strange = {f"{scene.id}-{number}": data for number, data in enumerate((b"", b"{}\n", b'"/b"\n[]\n', b"\xff\n\xff"))}
    try:
        for name, data in strange.items():
            (place / name).write_bytes(data)
        assert scene.run(scene.id).returncode == 0
    finally:
        for name in strange:
            (place / name).unlink()


USAGE = {
    "neither a container nor a bundle": (),
    "a container without a name, as of an empty variable": ("",),
    "both": ("c1", "--bundle", "."),
    "a device for a container": ("c1", "--device", "0"),
    "a root for a bundle": ("--bundle", ".", "--root", "/r"),
    "a bundle and a report to replay": ("--bundle", ".", "--replay", "r"),
    "a device for a report": ("--replay", "r", "--device", "0"),
    "a report of a container": ("c1", "--report", "r"),
    "private without a report": ("--bundle", ".", "--private"),
}


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_is_exit_status_2(scene: Scene, words: tuple[str, ...]) -> None:
    assert scene.run(*words).returncode == 2


# --- reports ---


def _shown(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("annotations", [ASKING, {"cdi.k8s.io/x": f"{KIND}=7"}, {}], ids=["injected", "refused", "not"])
def test_a_report_that_is_replayed_shows_the_same_explanation(
    scene: Scene, trusted_path: Path, annotations: Any
) -> None:
    scene.write(annotations)
    report = trusted_path / "report.json"
    explained = scene.run("--bundle", scene.bundle, "--report", report)
    code, out, err = _shown(explained)
    note = f"{report}: written; it holds the environment and the paths of the container (see --private)\n"
    assert note in err
    document = json.loads(scene.run("--bundle", scene.bundle, "-o", "json").stdout)
    scene.spec.unlink()
    scene.config.unlink()
    scene.settings.unlink()
    assert _shown(scene.run("--replay", report)) == (code, out, err.replace(note, ""))
    replayed = json.loads(scene.run("--replay", report, "-o", "json").stdout)
    assert replayed.pop("report") == {"version": __version__, "private": False, "differences": []}
    assert replayed == document
    with report.open() as file:
        assert _shown(scene.run("--replay", "-", stdin=file)) == (code, out, err.replace(note, ""))


def test_a_private_report_is_said_to_hold_nothing_of_the_container(scene: Scene, trusted_path: Path) -> None:
    scene.write(ASKING, ("TOKEN=hunter2",))
    report = trusted_path / "report.json"
    done = scene.run("--bundle", scene.bundle, "--report", report, "--private")
    assert (done.returncode, f"{report}: written\n" in done.stderr) == (0, True)
    text = report.read_text()
    assert ("hunter2" in text, trusted_path.name in text) == (False, False)
    assert json.loads(scene.run("--replay", report, "-o", "json").stdout)["report"]["private"] is True


def test_what_another_version_decided_otherwise_is_shown(scene: Scene, trusted_path: Path) -> None:
    scene.write(ASKING)
    report = trusted_path / "report.json"
    assert scene.run("--bundle", scene.bundle, "--report", report).returncode == 0
    value = json.loads(report.read_text())
    value["version"] = "0.0.7"
    value["decision"]["plan"]["origins"][0]["edits"]["env"][0] = "DRIVER=2"
    report.write_text(json.dumps(value))
    done = scene.run("--replay", report)
    assert done.returncode == 0, "a difference is no error: a defect may have been mended"
    assert f"WARNING REPORT_DIFFERS: {report}: this version ({__version__}) decides otherwise than version 0.0.7" in (
        done.stderr
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert f"MEMBER OF THE DECISION IN THE REPORT (0.0.7) NOW ({__version__})" in lines
    assert 'plan.origins[0].edits.env[0] "DRIVER=2" "DRIVER=1"' in lines
    [difference] = json.loads(scene.run("--replay", report, "-o", "json").stdout)["report"]["differences"]
    assert difference["member"] == "plan.origins[0].edits.env[0]"


def test_a_file_that_is_no_report_is_named(scene: Scene) -> None:
    for path, why in (
        (scene.settings, "Expecting value"),
        ("/nope", "it is missing"),
        ("/dev/null", "no regular file"),
    ):
        done = scene.run("--replay", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"ERROR REPORT_INVALID: {path}: ")
        assert why in done.stderr


# --- hooks that create does itself ---


@pytest.mark.rootful
def test_a_hook_that_create_does_itself_is_said_to_be_folded_before_and_after(
    scene: Scene, installed: Path, trusted_path: Path
) -> None:
    (scene.bundle / "rootfs/etc").mkdir(parents=True)
    hooks = [
        {"hookName": "createContainer", "path": str(installed), "args": ["shim", "hook", "update-ldcache"]},
        {"hookName": "createContainer", "path": "/bin/true"},
    ]
    scene.spec.write_text(json.dumps({**SPEC, "containerEdits": {"hooks": hooks}}))
    scene.write(ASKING, root={"path": "rootfs"})
    found = scene.explain()
    assert [edit["state"] for edit in found["edits"] if edit["kind"] == "hooks"] == ["added", "added"]
    scene.write(ASKING, root={"path": "rootfs", "readonly": True})
    found = scene.explain()
    assert [edit["state"] for edit in found["edits"] if edit["kind"] == "hooks"] == ["folded", "added"]
    assert not (scene.bundle / "rootfs/etc/ld.so.cache").exists()
    (trusted_path / "runc").symlink_to("/bin/true")
    assert scene.create(low=str(trusted_path / "runc")).returncode == 0
    assert (scene.bundle / "rootfs/etc/ld.so.cache").exists()
    assert [hook["path"] for hook in json.loads(scene.config.read_text())["hooks"]["createContainer"]] == ["/bin/true"]
    told = json.loads(scene.run(scene.id, "-o", "json").stdout)
    assert [edit["state"] for edit in told["edits"] if edit["kind"] == "hooks"] == ["folded", "there already"]
    scene.settings.write_text(scene.settings.read_text() + '[hooks]\nfold = "off"\n')
    found = scene.explain()
    assert [edit["state"] for edit in found["edits"] if edit["kind"] == "hooks"] == ["added", "there already"]
