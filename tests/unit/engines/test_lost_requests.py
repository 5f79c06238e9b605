"""From a vendor's runtime to shim: which requests will no longer count, and which running containers have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from unit.engines.test_configure import Machine
from unit.engines.toy import Toy

from shim.engines import lost_requests
from shim.engines.lost_requests import LostRequests
from shim.engines.model import Registry, Runtime
from shim.engines.running import Container
from shim.engines.table import ENGINES
from shim.host.host import Daemon, Host

NVIDIA = "/usr/bin/nvidia-container-runtime"
FILE = "/etc/nvidia-container-runtime/config.toml"
OURS = "/etc/shim/config.toml"
WAYS = 'ask by {"path": "…"}'  # for an older docker it is a piece of JSON
PRIVILEGED = {"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]}
CDI_HOOK = {"createContainer": [{"path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "update-ldcache"]}]}


def config(*env: str, **members: Any) -> dict[str, Any]:
    """A config.json with these variables."""
    capabilities = members.pop("capabilities", {})
    return {"process": {"env": ["PATH=/bin", *env], "capabilities": capabilities}, **members}


class Running:
    """A tree with running containers, and their monitors.

    Arguments:
        root: an empty directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.daemons: list[Daemon] = []

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def shim(self, tasks: str, namespace: str, ids: dict[str, dict[str, Any] | str], *, dead: str = "") -> None:
        """A containerd-shim whose first container is the first of these; the process of one may be gone."""
        for id, content in ids.items():
            pid = 1000 + len(list(self.root.rglob("init.pid")))
            self.write(f"{tasks}/{id}/config.json", content if isinstance(content, str) else json.dumps(content))
            self.write(f"{tasks}/{id}/init.pid", str(pid))
            if id != dead:
                self.write(f"/proc/{pid}/stat", "")
        first = next(iter(ids))
        words = ("/usr/bin/containerd-shim-runc-v2", "-namespace", namespace, "-id", first, "-address", "/run/c.sock")
        self.daemons.append(Daemon(len(self.daemons) + 2, words, 0.0, f"{tasks}/{first}"))

    def conmon(self, manager: str, id: str, content: dict[str, Any]) -> None:
        bundle = f"/run/containers/storage/overlay-containers/{id}/userdata"
        annotations = {**content.get("annotations", {}), "io.container.manager": manager}
        self.write(f"{bundle}/config.json", json.dumps({**content, "annotations": annotations}))
        words = ("/usr/bin/conmon", "--syslog", "-c", id, "-u", id, "-r", "/usr/bin/crun", "-b", bundle)
        self.daemons.append(Daemon(len(self.daemons) + 2, words, 0.0))

    @property
    def host(self) -> Host:
        return Host(str(self.root), daemons=self.daemons)

    def running(self, engine: str) -> list[Container]:
        """The running containers of an engine."""
        return ENGINES[engine].containers(self.host)

    def lost(self, engine: str = "docker", program: str = NVIDIA) -> dict[str, LostRequests]:
        """What would be lost, by source."""
        registry = Registry(runtimes={"nvidia": Runtime("nvidia", program)}, default="nvidia", low_level=program)
        return {one.source: one for one in lost_requests.compare(self.host, self.running(engine), registry, WAYS)}


@pytest.fixture
def machine(tmp_path: Path) -> Running:
    return Running(tmp_path)


TASKS = "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby"


# --- which containers run ---------------------------------------------------------------------------------------------


def test_the_containers_of_each_engine_are_found_by_their_monitors(machine: Running) -> None:
    machine.shim(TASKS, "moby", {"d1": config("A=docker")})
    machine.shim(TASKS, "moby", {"d2": config()})
    machine.shim("/srv/state/io.containerd.runtime.v2.task/k8s.io", "k8s.io", {"pod": config(), "c1": config("A=cri")})
    machine.shim("/run/x/plugins.moby", "plugins.moby", {"plugin": config()})
    machine.conmon("cri-o", "o1", config("A=crio"))
    machine.conmon("libpod", "p1", config("A=podman"))
    ids = {engine: [one.id for one in machine.running(engine)] for engine in ("docker", "containerd", "crio", "podman")}
    assert ids == {"docker": ["d1", "d2"], "containerd": ["c1", "pod"], "crio": ["o1"], "podman": ["p1"]}
    assert machine.running("docker")[0].environment == {"PATH": "/bin", "A": "docker"}


def test_what_does_not_run_or_cannot_be_read_is_left_out(machine: Running) -> None:
    machine.shim(TASKS, "moby", {"gone": config(), "here": config(), "odd": "[1]", "broken": "{"}, dead="gone")
    assert [one.id for one in machine.running("docker")] == ["here"]
    machine.write(f"{TASKS}/here/config.json", "{" + " " * 5_000_000 + "}")
    assert machine.running("docker") == []


# --- what is lost -----------------------------------------------------------------------------------------------------

# the vendor's file, ours; source -> (from whom it is taken, from whom shim takes it, line that says so)
POLICIES: dict[str, tuple[str | None, str, dict[str, tuple[str, str, int]]]] = {
    "no file: every image asks": (
        None,
        "",
        {"environment": ("any", "off", 0), "old-images": ("any", "off", 0)},
    ),
    "the line is a comment, as the package installs it": (
        "#accept-nvidia-visible-devices-envvar-when-unprivileged = true\n[nvidia-container-runtime]\n",
        "",
        {"environment": ("any", "off", 0), "old-images": ("any", "off", 0)},
    ),
    "privileged containers alone, which shim takes over with the line": (
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n",
        "",
        {"old-images": ("privileged", "off", 0)},
    ),
    "privileged containers alone, and a file of ours": (
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n",
        "[log]\n",
        {"environment": ("privileged", "off", 1), "old-images": ("privileged", "off", 0)},
    ),
    "mounts, too": (
        "accept-nvidia-visible-devices-as-volume-mounts = true\n",
        "[log]\n",
        {"environment": ("any", "off", 0), "mounts": ("any", "off", 1), "old-images": ("any", "off", 0)},
    ),
    "annotations of a prefix of its own": (
        '[nvidia-container-runtime.modes.cdi]\nannotation-prefixes = ["nvidia.cdi.k8s.io/", "cdi.k8s.io/"]\n',
        "[log]\n",
        {
            "environment": ("any", "off", 0),
            "annotations": ("any", "off", 2),
            "old-images": ("any", "off", 0),
        },
    ),
    "shim takes them from privileged containers": (
        None,
        '[sources]\nenvironment = "privileged"\n',
        {"environment": ("any", "privileged", 0), "old-images": ("any", "off", 0)},
    ),
    "shim takes them from all": (None, '[sources]\nenvironment = "any"\n', {"old-images": ("any", "off", 0)}),
    "shim takes other variables": (
        None,
        '[sources]\nenvironment = "any"\nvariables = {MY_DEVICES = "a.b/c"}\n',
        {"environment": ("any", "off", 0), "old-images": ("any", "off", 0)},
    ),
}


@pytest.mark.parametrize(("theirs", "ours", "expected"), POLICIES.values(), ids=POLICIES)
def test_what_will_no_longer_count(
    machine: Running, theirs: str | None, ours: str, expected: dict[str, tuple[str, str, int]]
) -> None:
    if theirs is not None:
        machine.write(FILE, theirs)
    if ours:
        machine.write(OURS, ours)
    found = {source: (one.taken_from, one.counts_for, one.line) for source, one in machine.lost().items()}
    assert found == expected
    assert all((one.path == FILE) == bool(one.line) for one in machine.lost().values())


def test_the_configuration_of_an_operator_lies_beside_its_program(machine: Running) -> None:
    machine.write(FILE, "accept-nvidia-visible-devices-envvar-when-unprivileged = true\n")
    beside = "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
    machine.write(beside, "\naccept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
    machine.write(OURS, "[log]\n")
    lost = machine.lost(program="/usr/local/nvidia/toolkit/nvidia-container-runtime")["environment"]
    assert (lost.taken_from, lost.path, lost.line) == ("privileged", beside, 2)


@pytest.mark.parametrize("program", ["/usr/bin/runc", "/usr/bin/crun", "/opt/kata/bin/kata-runtime"])
def test_behind_another_default_runtime_nothing_is_lost(machine: Running, program: str) -> None:
    machine.shim(TASKS, "moby", {"c": config("NVIDIA_VISIBLE_DEVICES=all")})
    assert machine.lost(program=program) == {}
    assert machine.lost(), "the test can fail"


# config.json -> the sources by which it asks
ASKING: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": (config("NVIDIA_VISIBLE_DEVICES=all"), ["environment"]),
    "by index, beside CUDA_VERSION": (config("CUDA_VERSION=12.4", "NVIDIA_VISIBLE_DEVICES=0,1"), ["environment"]),
    "the last of two counts": (config("NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=0"), ["environment"]),
    "nothing": (config(), []),
    "an empty value": (config("NVIDIA_VISIBLE_DEVICES="), []),
    "void, as it came": (config("NVIDIA_VISIBLE_DEVICES=void"), []),
    "void, which the vendor's runtime wrote over the request": (
        config("NVIDIA_VISIBLE_DEVICES=void", hooks=CDI_HOOK),
        ["environment"],
    ),
    "a hint at the mounts": (
        config(
            "NVIDIA_VISIBLE_DEVICES=/var/run/nvidia-container-devices",
            mounts=[{"destination": "/var/run/nvidia-container-devices/GPU-1", "source": "/dev/null"}],
        ),
        ["mounts"],
    ),
    "an old image": (config("CUDA_VERSION=9.0"), ["old-images"]),
    "a later image": (config("CUDA_VERSION=12.4", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"), []),
    "another vendor": (config("AMD_VISIBLE_DEVICES=0"), []),
    "odd members": ({"process": {"env": [1, "x"]}, "hooks": [], "mounts": {}, "annotations": []}, []),
}


@pytest.mark.parametrize(("content", "sources"), ASKING.values(), ids=ASKING)
def test_running_containers_that_ask_are_counted(machine: Running, content: dict[str, Any], sources: list[str]) -> None:
    machine.write(FILE, "accept-nvidia-visible-devices-as-volume-mounts = true\n")
    machine.write(OURS, "[log]\n")
    machine.shim(TASKS, "moby", {"other": config(), "this": content})
    assert [source for source, one in machine.lost().items() if one.containers] == sources
    assert all(one.containers in ([], ["this"]) for one in machine.lost().values())


def test_only_containers_that_lose_something_are_counted(machine: Running) -> None:
    asks = "NVIDIA_VISIBLE_DEVICES=all"
    machine.shim(TASKS, "moby", {"plain": config(asks), "privileged": config(asks, capabilities=PRIVILEGED)})
    assert machine.lost()["environment"].containers == ["plain", "privileged"]
    machine.write(OURS, '[sources]\nenvironment = "privileged"\n')
    assert machine.lost()["environment"].containers == ["plain"]
    machine.write(OURS, "[log]\n")
    machine.write(FILE, "accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
    assert machine.lost()["environment"].containers == ["privileged"], "the vendor gives nothing to the other one"


def test_a_variable_of_swarm_asks_in_the_place_of_the_usual_one(machine: Running) -> None:
    machine.write(FILE, 'swarm-resource = "DOCKER_RESOURCE_GPU, OTHER"\n')
    machine.write(OURS, "[log]\n")
    machine.shim(
        TASKS,
        "moby",
        {"swarm": config("DOCKER_RESOURCE_GPU=0"), "void": config("OTHER=void", "NVIDIA_VISIBLE_DEVICES=all")},
    )
    lost = machine.lost()["environment"]
    assert lost.containers == ["swarm"]
    assert "the variable DOCKER_RESOURCE_GPU or OTHER or NVIDIA_VISIBLE_DEVICES" in lost.what


def test_annotations_that_no_longer_count_are_counted(machine: Running) -> None:
    machine.write(FILE, '[nvidia-container-runtime.modes.cdi]\nannotation-prefixes = ["nvidia.cdi.k8s.io/"]\n')
    machine.write(OURS, "[log]\n")
    machine.conmon("cri-o", "a", config(annotations={"nvidia.cdi.k8s.io/x": "nvidia.com/gpu=0"}))
    machine.conmon("cri-o", "b", config(annotations={"cdi.k8s.io/x": "nvidia.com/gpu=0"}))
    assert machine.lost("crio")["annotations"].containers == ["a"]


def test_amds_runtime_takes_its_own_variable(machine: Running) -> None:
    machine.shim(
        TASKS, "moby", {"amd": config("AMD_VISIBLE_DEVICES=all"), "nvidia": config("NVIDIA_VISIBLE_DEVICES=0")}
    )
    lost = machine.lost(program="/usr/bin/amd-container-runtime")
    assert {source: one.containers for source, one in lost.items()} == {"environment": ["amd"]}


def test_the_finding_names_what_is_lost_and_what_to_do(machine: Running) -> None:
    ids = [f"{number}{'f' * 63}" for number in range(6)]
    machine.shim(TASKS, "moby", {id: config("NVIDIA_VISIBLE_DEVICES=all") for id in ids})
    found = machine.lost()["environment"].finding(NVIDIA)
    assert (found.id, found.level) == ("VENDOR_REQUESTS", "WARNING")
    assert found.text == (
        f"{NVIDIA} takes the variable NVIDIA_VISIBLE_DEVICES as a request, from every container; shim takes it from no "
        f"container. Containers that ask so: 6 that run now: {', '.join(id[:12] for id in ids[:4])} and 2 more"
    )
    assert found.remedy == f'{WAYS}; or write environment = "any" below [sources] in /etc/shim/config.toml'
    assert machine.lost()["old-images"].finding(NVIDIA).text.endswith("Containers that ask so: none that runs now")


# --- in the recipe ----------------------------------------------------------------------------------------------------


@pytest.fixture
def vendors(trusted_path: Path, shim_path: Path) -> Machine:
    """An engine whose default runtime is NVIDIA's."""
    machine = Machine(trusted_path / "root", shim_path)
    (machine.root / NVIDIA.lstrip("/")).touch(0o755)
    machine.config.write_text(f'default = "nvidia"\n[runtimes.nvidia]\npath = "{NVIDIA}"\n')
    return machine


@pytest.mark.parametrize("dry_run", [True, False])
def test_configure_reports_them_each_time(vendors: Machine, dry_run: bool) -> None:
    for _ in range(2):
        outcome = vendors.configure(Toy(), dry_run=dry_run)
        assert [one.source for one in outcome.lost] == ["environment", "old-images"]
        assert [one.id for one in outcome.findings].count("VENDOR_REQUESTS") == 2
    assert outcome.low_level == "/usr/sbin/runc"


@pytest.mark.rootful
def test_a_vendors_runtime_that_stays_behind_shim_loses_nothing(vendors: Machine) -> None:
    outcome = vendors.configure(Toy(), low_level=NVIDIA, fixed=True)
    assert (outcome.low_level, outcome.lost) == (NVIDIA, [])


def test_made_the_default_it_still_knows_what_was_there_before(vendors: Machine) -> None:
    vendors.configure(Toy(), default=True)
    assert vendors.configure(Toy(), default=True).lost


def test_a_default_runtime_of_nobodys_loses_nothing(trusted_path: Path, shim_path: Path) -> None:
    assert Machine(trusted_path / "root", shim_path).configure(Toy()).lost == []
