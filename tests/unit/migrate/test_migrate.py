"""From a vendor's toolkit to shim and back, on files of both vendors' toolkits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from unit.engines.test_lost_requests import config
from unit.migrate.machines import LAUNCHER, UNITS, Machine

from shim.base.findings import CdiError, Finding
from shim.discover import output, setup
from shim.discover.nvidia.snapshot import Snapshot
from shim.engines import remove as removal
from shim.engines.configure import Options
from shim.engines.table import ENGINES
from shim.host.host import Daemon, Host
from shim.migrate import journal as journals
from shim.migrate.journal import Journal

Make = Callable[[str], Machine]
Run = Callable[..., Result]

SPEC = "/var/run/cdi/shim-nvidia.com-gpu.yaml"
AMD_SPEC = "/var/run/cdi/shim-amd.com-gpu.yaml"
OTHER = "/etc/cdi/nvidia.yaml"
DAEMON = "/etc/docker/daemon.json"
OURS = "/etc/shim/config.toml"
THEIRS = "/etc/nvidia-container-runtime/config.toml"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/moby"
ACCEPTS = "accept-nvidia-visible-devices-envvar-when-unprivileged = true\n"
AMD_DAEMON = """{
    "features": {
        "cdi": true
    },
    "runtimes": {
        "amd": {
            "path": "amd-container-runtime",
            "args": []
        }
    }
}"""  # as amd-ctk writes it, without a line break at its end

# trees of tests/configs with NVIDIA's runtime
NVIDIA_TREES = (
    "docker/nvidia-toolkit",
    "docker/gpu-host",
    "containerd/nvidia-default-1.7",
    "containerd/gpu-operator-1.7",
    "containerd/conf-d-2.2",
    "crio/nvidia-toolkit",
)


def containers(machine: Machine, **running: dict[str, Any]) -> None:
    """Containers of docker that run under NVIDIA's runtime."""
    for id, content in running.items():
        machine.shim(f"{TASKS}", "moby", {id: content})
        machine.write(f"{TASKS}/{id}/runtime", "/usr/bin/nvidia-container-runtime")


# --- the plan, and back -----------------------------------------------------------------------------------------------


def test_the_plan_names_every_step_and_changes_nothing(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    before = machine.state()
    done = run(machine, "nvidia", "--dry-run")
    assert done.exit_code == 0, done.output
    for line in (
        f"{SPEC}: would be written: nvidia.com/gpu, 5 devices",
        f"  {OTHER}: would be moved aside",
        "nvidia-cdi-refresh.service: would be stopped and disabled",
        "nvidia-cdi-refresh.path: would be stopped and disabled",
        "shim-cdi-refresh.path: would be enabled",
        "docker: the runtime nvidia: stays, beside shim",
        "docker: would be: /etc/shim/low-level/shim -> /usr/bin/runc",
    ):
        assert line in done.stdout.splitlines(), line
    assert '+        "shim": {' in done.stdout
    assert "nvidia stays the default runtime of docker" in done.stderr
    assert machine.state() == before
    assert machine.enabled == set()


@pytest.mark.parametrize("words", [(), ("--remove",), ("--sources", "--remove")], ids=["beside", "remove", "sources"])
@pytest.mark.parametrize("tree", NVIDIA_TREES)
def test_it_is_carried_out_and_undone_byte_for_byte(make: Make, run: Run, tree: str, words: tuple[str, ...]) -> None:
    machine = make(tree).nvidia()
    if tree.startswith("docker"):
        containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=all"))
    before = machine.state()
    done = run(machine, "nvidia", *words)
    assert done.exit_code == 0, done.output
    assert machine.exists(SPEC)
    assert not machine.exists(OTHER)
    assert machine.enabled == set(setup.UNITS)
    assert [machine.exists(f"/etc/systemd/system/{name}") for name in UNITS] == [True, True]
    assert "stop nvidia-cdi-refresh.path" in machine.calls
    again = run(machine, "nvidia", *words)
    assert again.exit_code == 0, again.output
    undone = run(machine, "nvidia", "--undo")
    assert undone.exit_code == 0, undone.output
    assert machine.state() == before
    assert machine.enabled == set()
    assert machine.calls[-1] == "start nvidia-cdi-refresh.path"
    with pytest.raises(CdiError) as refused:
        run(machine, "nvidia", "--undo")
    assert [finding.id for finding in refused.value.findings] == ["MIGRATE_NOTHING"]


def test_amds_toolkit_too(make: Make, run: Run) -> None:
    machine = make("docker/debian-12").amd()
    machine.write(DAEMON, AMD_DAEMON)
    machine.write("/var/log/gpu-tracker.json", '{"enabled": true}')
    before = machine.state()
    done = run(machine, "amd", "--remove")
    assert done.exit_code == 0, done.output
    assert "docker: the runtime amd: removed" in done.stdout
    assert "gpu-tracker` reserves, which shim does not take over" in done.stderr.replace("\n  ", " ")
    daemon = json.loads(machine.read(DAEMON))
    assert daemon == {"features": {"cdi": True}, "runtimes": {"shim": {"path": LAUNCHER}}}
    assert machine.exists(AMD_SPEC)
    assert not machine.exists("/etc/cdi/amd.json")
    assert run(machine, "amd", "--undo").exit_code == 0
    assert machine.state() == before


def test_toolkits_of_both_vendors_are_undone_in_the_order_that_leads_back(make: Make, run: Run) -> None:
    machine = make("docker/gpu-host").nvidia().amd()
    daemon = json.loads(machine.read(DAEMON))
    daemon["runtimes"]["amd"] = {"path": "amd-container-runtime"}
    machine.write(DAEMON, json.dumps(daemon))
    before = machine.state()
    assert run(machine, "nvidia", "--remove").exit_code == 0
    assert run(machine, "amd", "--remove").exit_code == 0
    assert set(json.loads(machine.read(DAEMON))["runtimes"]) == {"crun", "shim"}
    after = machine.state()
    with pytest.raises(CdiError) as refused:
        run(machine, "nvidia", "--undo")
    assert [finding.id for finding in refused.value.findings] == ["MIGRATE_ORDER"]
    assert machine.state() == after
    assert run(machine, "amd", "--undo").exit_code == 0
    assert set(json.loads(machine.read(DAEMON))["runtimes"]) == {"amd", "crun", "shim"}
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert machine.state() == before


def test_a_machine_without_an_engine_gets_its_specs(make: Make, run: Run) -> None:
    machine = make("").nvidia()
    done = run(machine, "nvidia", "--no-units")
    assert done.exit_code == 0, done.output
    assert "no engine has a runtime of NVIDIA" in done.stdout
    assert machine.exists(SPEC)
    assert machine.enabled == set()


def test_where_there_is_nothing_of_the_toolkit_it_is_refused(make: Make, run: Run) -> None:
    machine = make("docker/debian-12")
    (machine.root / "usr/bin/nvidia-container-runtime").unlink()
    with pytest.raises(CdiError) as refused:
        run(machine, "nvidia", "--dry-run")
    assert [finding.id for finding in refused.value.findings] == ["MIGRATE_NOTHING"]
    assert machine.enabled == set()


# --- the vendor's runtimes --------------------------------------------------------------------------------------------


def test_a_default_that_was_the_vendors_becomes_ours_and_is_restored(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    before = machine.read(DAEMON)
    run(machine, "nvidia")
    assert json.loads(machine.read(DAEMON))["default-runtime"] == "nvidia"
    done = run(machine, "nvidia", "--remove")
    assert "docker: the runtime nvidia: removed" in done.stdout
    assert json.loads(machine.read(DAEMON)) == {"default-runtime": "shim", "runtimes": {"shim": {"path": LAUNCHER}}}
    run(machine, "nvidia", "--undo")
    assert machine.read(DAEMON) == before


def test_removing_shim_from_an_engine_brings_the_vendors_runtime_back(make: Make, run: Run) -> None:
    """`shim runtime remove` must not leave a default runtime that is not registered."""
    machine = make("docker/nvidia-toolkit").nvidia()
    before = machine.read(DAEMON)
    run(machine, "nvidia", "--remove")
    removal.remove(machine.host, ENGINES["docker"], Options())
    assert machine.read(DAEMON) == before
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert machine.read(DAEMON) == before


def test_running_containers_that_need_the_vendors_program_are_named(make: Make, run: Run) -> None:
    machine = make("docker/gpu-host").nvidia()
    containers(machine, c1=config())
    done = run(machine, "nvidia")
    text = "containers of docker run under /usr/bin/nvidia-container-runtime: c1"
    assert text in done.stderr.replace("\n  ", " ")


def test_the_hook_of_an_older_toolkit_is_named(make: Make, run: Run) -> None:
    machine = make("podman/nvidia-hook").nvidia()
    done = run(machine, "nvidia", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "MIGRATE_LEFT: /usr/share/containers/oci/hooks.d/oci-nvidia-hook.json" in done.stderr


def test_a_change_that_an_administrator_made_since_stays(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    before = json.loads(machine.read(DAEMON))
    run(machine, "nvidia", "--remove")
    machine.write(DAEMON, json.dumps({**json.loads(machine.read(DAEMON)), "bip": "10.9.0.1/24"}))
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert json.loads(machine.read(DAEMON)) == {**before, "bip": "10.9.0.1/24"}


def test_a_runtime_that_was_registered_before_stays_registered(make: Make, run: Run) -> None:
    """By `shim runtime configure`, as the default: undoing leads back to that."""
    machine = make("docker/gpu-host").nvidia()
    run(machine, "nvidia")
    (machine.root / "var/lib/shim/migrate/nvidia.json").unlink()  # as if configure had registered it
    machine.write(OTHER, "{}")
    registered = machine.read(DAEMON)
    run(machine, "nvidia", "--remove")
    assert "nvidia" not in json.loads(machine.read(DAEMON))["runtimes"]
    run(machine, "nvidia", "--undo")
    assert machine.read(DAEMON) == registered


def test_containers_that_an_engine_finds_by_the_runtimes_name_stop_its_removal(make: Make, run: Run) -> None:
    machine = make("crio/nvidia-toolkit").nvidia()
    machine.conmon("cri-o", "o1", config())
    bundle = machine.daemons[-1].option("-b")
    words = ("/usr/bin/conmon", "-c", "o1", "-r", "/usr/bin/nvidia-container-runtime", "-b", bundle)
    machine.daemons[-1] = Daemon(9, words, 0.0)
    before = machine.state()
    done = run(machine, "nvidia", "--remove")
    assert done.exit_code == 1
    assert "CONTAINERS_RUNNING" in done.stderr
    assert "nothing was changed" in done.stderr
    assert machine.state() == before
    assert run(machine, "nvidia").exit_code == 0, "beside ours it can stay"


def test_a_runtime_that_another_program_registers_stays(make: Make, run: Run) -> None:
    machine = make("containerd/k3s-1.28").nvidia()
    machine.program("/var/lib/rancher/k3s/data/current/bin/containerd")
    done = run(machine, "nvidia", "--engine", "containerd", "--remove")
    assert done.exit_code == 0, done.output
    assert "registered by k3s, and stays" in done.stderr.replace("\n  ", " ")


# --- sources ----------------------------------------------------------------------------------------------------------


def lines(done: Result) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith(("sources.", "cdi."))]


def test_what_running_containers_ask_by_is_needed_and_written_on_request(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"), c2=config())
    done = run(machine, "nvidia", "--dry-run")
    assert lines(done) == ["sources.environment = any: needed, for c1: --sources writes it"]
    assert "VENDOR_REQUESTS" in done.stderr
    assert not machine.exists(OURS)
    done = run(machine, "nvidia", "--sources")
    assert lines(done) == [f"sources.environment = any: needed, for c1: written into {OURS}"]
    assert machine.read(OURS).splitlines()[1:] == ["", "[sources]", '  environment = "any"']


def test_a_source_is_opened_no_wider_than_containers_need(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    privileged = {"bounding": ["CAP_SYS_ADMIN"]}
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0", capabilities=privileged))
    assert lines(run(machine, "nvidia", "--dry-run")) == [
        "sources.environment = privileged: needed, for c1: --sources writes it"
    ]


def test_containers_of_other_runtimes_need_nothing(make: Make, run: Run) -> None:
    machine = make("docker/gpu-host").nvidia()
    machine.shim(TASKS, "moby", {"c1": config("NVIDIA_VISIBLE_DEVICES=all")})
    assert lines(run(machine, "nvidia", "--dry-run")) == []


def test_lines_of_the_vendors_configuration_are_kept_when_ours_takes_its_place(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    machine.write(THEIRS, ACCEPTS + 'swarm-resource = "DOCKER_RESOURCE_GPU"\n')
    before = machine.state()
    done = run(machine, "nvidia", "--sources")
    assert done.exit_code == 0, done.output
    assert f"sources.environment = any: needed, of {THEIRS}:1: written into {OURS}" in lines(done)
    text = machine.read(OURS)
    assert 'environment = "any"' in text
    assert "merge = false" in text
    assert 'DOCKER_RESOURCE_GPU = "nvidia.com/gpu"' in text
    assert lines(run(machine, "nvidia")) == [], "they count now"
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert machine.state() == before


def test_our_configuration_keeps_what_it_has(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    text = '# mine\n[cdi]\ndefault-kind = "nvidia.com/gpu"\n\n[sources]\nmounts = "off"  # no\n'
    machine.write(OURS, text)
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"))
    run(machine, "nvidia", "--sources")
    assert machine.read(OURS) == text + 'environment = "any"\n'
    machine.write(OURS, machine.read(OURS) + "merge = false\n")
    run(machine, "nvidia", "--undo")
    assert machine.read(OURS) == text + "merge = false\n"


def test_a_fault_of_our_configuration_changes_nothing(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"))
    machine.write(OURS, "[sources]\nmounts = 7\n")
    before = machine.state()
    done = run(machine, "nvidia", "--sources")
    assert done.exit_code == 1
    assert "SETTINGS" in done.stderr
    assert machine.state() == before


# --- specs ------------------------------------------------------------------------------------------------------------


def test_a_spec_that_would_lose_names_stops_everything(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia("0", "1", "2", "all")
    before = machine.state()
    done = run(machine, "nvidia")
    assert done.exit_code == 1
    assert "would lose nvidia.com/gpu=2" in done.stderr.replace("\n  ", " ")
    assert machine.state() == before
    assert run(machine, "nvidia", "--allow-shrink").exit_code == 0


def test_specs_of_other_kinds_stay_and_are_named(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    machine.spec("/etc/cdi/gds.json", "nvidia.com/gds", ("all",), "/usr/bin/nvidia-cdi-hook")
    done = run(machine, "nvidia")
    assert machine.exists("/etc/cdi/gds.json")
    left = "MIGRATE_LEFT: /etc/cdi/gds.json: it serves nvidia.com/gds, which no spec of shim replaces here"
    assert f"{left}, and stays; its hooks start" in done.stderr.replace("\n  ", " ")


def test_without_devices_the_vendors_spec_and_units_stay(make: Make, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    monkeypatch.setattr("shim.discover.nvidia.gpus.take", lambda *_: Snapshot())
    done = run(machine, "nvidia")
    assert done.exit_code == 0, done.output
    assert machine.exists(OTHER)
    assert machine.calls == []
    assert "of which shim discovered no device here, and stays" in done.stderr.replace("\n  ", " ")
    assert "shim" in json.loads(machine.read(DAEMON))["runtimes"]


def test_units_are_stopped_also_before_they_wrote_a_spec(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    (machine.root / OTHER[1:]).unlink()
    before = machine.state()
    assert run(machine, "nvidia").exit_code == 0
    assert [machine.exists(f"/etc/systemd/system/{name}") for name in UNITS] == [True, True]
    run(machine, "nvidia", "--undo")
    assert machine.state() == before


def test_the_driver_root_of_the_vendors_configuration_counts(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    machine.write(THEIRS, '[nvidia-container-cli]\nroot = "/run/nvidia/driver"\n')
    done = run(machine, "nvidia", "--dry-run")
    assert "/run/nvidia/driver" in done.stderr


def test_settings_of_the_vendors_unit_are_named(make: Make, run: Run) -> None:
    machine = make("").nvidia()
    path = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
    machine.write(path, "# NVIDIA_CTK_DEBUG=1\n")
    assert path not in run(machine, "nvidia", "--dry-run").stderr
    machine.write(path, "NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES=uuid\n")
    assert path in run(machine, "nvidia", "--dry-run").stderr


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_step_that_fails_is_undone_with_those_before_it(
    make: Make, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"))
    before = machine.state()

    def fail(*_: Any) -> bool:
        raise CdiError([Finding("SPEC_WRITE", "the disk is full")])

    monkeypatch.setattr(output, "write", fail)
    with pytest.raises(CdiError) as refused:
        run(machine, "nvidia", "--sources", "--remove")
    assert [finding.id for finding in refused.value.findings] == ["SPEC_WRITE"]
    assert machine.state() == before


def test_what_cannot_be_undone_is_named_and_can_be_tried_again(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    before = machine.state()
    run(machine, "nvidia")
    machine.write(OTHER, "mine")
    done = run(machine, "nvidia", "--undo")
    assert done.exit_code == 1
    assert "another file is there now" in done.stderr
    (machine.root / OTHER[1:]).unlink()
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert machine.state() == before


def test_a_plan_of_the_way_back_changes_nothing(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    run(machine, "nvidia")
    before = machine.state()
    done = run(machine, "nvidia", "--undo", "--dry-run")
    assert f"{OTHER}: would be restored" in done.stdout
    assert f"{SPEC}: would be removed" in done.stdout
    assert "docker: would be configured as before" in done.stdout
    assert "nvidia-cdi-refresh.path: would be as before" in done.stdout
    assert machine.state() == before


def test_the_report_is_json_too(make: Make, run: Run) -> None:
    machine = make("docker/nvidia-toolkit").nvidia()
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"))
    plan = json.loads(run(machine, "nvidia", "--dry-run", "--sources", "-o", "json").stdout)
    assert (plan["done"], plan["dryRun"], plan["from"]) == (False, True, "nvidia")
    assert plan["sources"] == [
        {"key": "sources.environment", "value": "any", "containers": ["c1"], "path": "", "line": 0, "written": False}
    ]
    assert plan["configuration"]["path"] == OURS
    assert [(one["engine"], one["stays"], one["removed"]) for one in plan["engines"]] == [("docker", ["nvidia"], [])]
    assert [(one["state"], one["movedAside"]) for one in plan["specs"]] == [("would be written", [OTHER])]
    assert plan["units"]["nvidia-cdi-refresh.service"] == "would be stopped and disabled"
    done = json.loads(run(machine, "nvidia", "--sources", "-o", "json").stdout)
    assert (done["done"], done["specs"][0]["state"], done["sources"][0]["written"]) == (True, "written", True)
    undone = json.loads(run(machine, "nvidia", "--undo", "-o", "json").stdout)
    assert undone["restored"] == [OTHER]
    assert SPEC in undone["removed"]
    assert OURS in undone["removed"]


@pytest.mark.parametrize("step", range(1, 6))
def test_a_migration_that_is_cut_off_is_undone_too(
    make: Make, run: Run, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Cut off after the journal was saved for a step, and before that step."""
    machine = make("docker/nvidia-toolkit").nvidia()
    containers(machine, c1=config("NVIDIA_VISIBLE_DEVICES=0"))
    before = machine.state()
    saved: list[Journal] = []

    class CutOff(BaseException):
        pass

    def save(host: Host, journal: Journal) -> None:
        kept(host, journal)
        saved.append(journal)
        if len(saved) == step:
            raise CutOff

    kept = journals.save
    with monkeypatch.context() as patch:
        patch.setattr(journals, "save", save)
        with pytest.raises(CutOff):
            run(machine, "nvidia", "--sources", "--remove")
    assert machine.state() != before, "the journal is there"
    assert run(machine, "nvidia", "--undo").exit_code == 0
    assert machine.state() == before
    assert machine.enabled == set()
