"""Who could have written an annotation: which engine calls, which podman, which sandbox is one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from unit.create.callers import ID, SANDBOX, conmon, recorded

from shim.base.findings import CdiError
from shim.config.settings import ANY, IGNORE, Settings
from shim.create import annotation_requests, podman_caller
from shim.create.annotation_origin import (
    CLIENT,
    CRIO,
    MANAGER,
    PODMAN,
    PODMAN_UNKNOWN,
    Caller,
    Origin,
    of,
)
from shim.create.annotation_requests import AnnotationRequests, is_sandbox
from shim.create.engine_annotations import OWN
from shim.create.world import World
from shim.host import podman_programs

NAME = "vendor.test/class=dev0"
KEY = "cdi.k8s.io/x"
CRIO_CALL = {"CRI_O_EXTERNAL": "1"}


class Host:
    """Answers what a test gives; that podman is asked for at all is a fault where it gives nothing."""

    def __init__(self, environ: dict[str, str] | None = None, podman: tuple[str, str, str] | None = None) -> None:
        self._environ, self._podman = environ or {}, podman

    def environ(self, name: str) -> str:
        return self._environ.get(name, "")

    def podman(self, stage: str) -> tuple[str, str, str]:
        assert self._podman, f"which podman calls was asked, in the stage {stage}"
        return self._podman


def caller(host: Host) -> Caller:
    return Caller(host, precreate=False)


# annotations make the others: of podman with its own key, of a client without
CLIENT_CALLER = caller(Host())
CRIO_CALLER = caller(Host({"CRI_O_EXTERNAL": "1"}))
OLD = caller(Host(podman=(PODMAN_UNKNOWN, "/usr/bin/podman is podman 4.3.1", "the ways")))
NEW = caller(Host(podman=(PODMAN, "/usr/bin/podman is recorded as podman 5.4.2", "")))


def requests(annotations: Any, caller: Any, id: str = ID, **settings: str) -> AnnotationRequests:
    chosen = Settings()
    for name, value in settings.items():
        setattr(chosen, name, value)
    return annotation_requests.find({"annotations": annotations}, id, chosen, caller._host, precreate=caller._precreate)


def refused(annotations: Any, caller: Any, **settings: str) -> tuple[str, str]:
    """Text and remedy of the refusal."""
    with pytest.raises(CdiError) as caught:
        requests(annotations, caller, **settings)
    [finding] = caught.value.findings
    assert finding.id == "REQUEST_ORIGIN"
    return finding.text, finding.remedy


# --- which engine -------------------------------------------------------------------------------------------------

ENGINES: dict[str, tuple[dict[str, str], bool, dict[str, Any], str]] = {
    "containerd, docker, a person": ({}, False, {"io.kubernetes.cri.container-type": "container"}, CLIENT),
    "CRI-O, by its call": (CRIO_CALL, False, recorded("cri-o", "1.36", "CRI CreateContainer"), CRIO),
    "CRI-O, whatever config.json says": (CRIO_CALL, False, {MANAGER: "libpod"}, CRIO),
    "another value of its variable": ({"CRI_O_EXTERNAL": "0"}, False, {MANAGER: "cri-o"}, PODMAN),
    "CRI-O's keys without its call": ({}, False, recorded("cri-o", "1.36", "CRI CreateContainer"), PODMAN),
    "podman": ({}, False, recorded("podman", "4.3", "podman run"), PODMAN),
    "podman, with a value that the image chose": ({}, False, {MANAGER: "containerd"}, PODMAN),
    "podman, with an empty value": ({}, False, {MANAGER: ""}, PODMAN),
    "podman's precreate stage": ({}, True, {}, PODMAN),
    "its environment is podman's, too": (CRIO_CALL, True, {}, PODMAN),
}


@pytest.mark.parametrize(("environ", "precreate", "annotations", "engine"), ENGINES.values(), ids=ENGINES.keys())
def test_the_engine_is_known_by_what_no_image_can_write(
    environ: dict[str, str], precreate: bool, annotations: dict[str, Any], engine: str
) -> None:
    assert Caller(Host(environ), precreate=precreate).engine(annotations) == engine


def test_the_variable_is_read_from_the_environment_of_the_process() -> None:
    code = (
        "from shim.create.annotation_origin import Caller, of; from shim.create.world import World\n"
        "origin = of({}, Caller(World(), precreate=False)); print(origin.kind, '-', origin.source)"
    )
    for value, kind in (("1", CRIO), ("", CLIENT)):
        environ = {**os.environ, "CRI_O_EXTERNAL": value}
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"{kind} - CRI_O_EXTERNAL")


def test_podman_is_not_asked_for_where_nothing_asks_for_a_device() -> None:
    """The files of /proc and the records are read for a request only."""
    found = requests({MANAGER: "libpod"}, CLIENT_CALLER)
    assert (found.requests, found.findings) == ({}, [])


# --- which podman -------------------------------------------------------------------------------------------------


@pytest.fixture
def podman(trusted_path: Path) -> Path:
    program = trusted_path / "podman"
    shutil.copy("/bin/cat", program)
    return program


@pytest.fixture
def record(trusted_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = trusted_path / "record/podman-programs"
    file.parent.mkdir()
    monkeypatch.setattr(podman_programs, "SYSTEM_FILE", str(file))
    return file


@pytest.fixture
def note(record: Path, podman: Path) -> Callable[[tuple[int, ...]], None]:
    """Record a version of the program."""

    def write(version: tuple[int, ...]) -> None:
        record.write_text(f"{podman_programs.Program(podman.stat(), version, str(podman))}\n")

    return write


@pytest.fixture
def called_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Have a process for a parent."""
    yield lambda pid: monkeypatch.setattr("posix.getppid", lambda: pid)


def find(stage: str = "create", home: bytes = b"") -> Origin:
    return podman_caller.find(World(), precreate=stage == "precreate", environ={b"HOME": home} if home else {})


def test_the_podman_that_started_conmon_is_known_by_its_record(
    podman: Path, note: Callable[[tuple[int, ...]], None], called_by: Callable[[int], None]
) -> None:
    note((4, 6))
    with conmon("--api-version", "1", "--exit-command", str(podman), "--exit-command-arg", "cleanup") as pid:
        called_by(pid)
        origin = find()
    assert (origin.kind, origin.source) == (PODMAN, f"{podman} is recorded as podman 4.6")


UNKNOWN: dict[str, tuple[tuple[int, ...], list[str], str, str]] = {
    "an old one": ((4, 5, 9), ["--exit-command", "PODMAN"], "PODMAN is podman 4.5.9", "podman 4.6 or later"),
    "one that is not recorded": (
        (),
        ["--exit-command", "PODMAN"],
        "the version of PODMAN is not recorded",
        "`shim runtime configure --engine podman`",
    ),
    "another program": (
        (5, 4),
        ["--exit-command", "/bin/true"],
        "the version of /bin/true is not recorded",
        "`shim runtime configure --engine podman`",
    ),
    "a program that is missing": ((5, 4), ["--exit-command", "/nope"], "does not say which podman", "--device"),
    "a conmon that does not say": ((5, 4), ["--api-version", "1"], "does not say which podman", "--device"),
    "a conmon that says it twice: the first counts": (
        (5, 4),
        ["--exit-command", "/bin/true", "--exit-command", "PODMAN"],
        "the version of /bin/true is not recorded",
        "configure",
    ),
    "a word at the end": ((5, 4), ["--exit-command"], "does not say which podman", "--device"),
    "no absolute path": ((5, 4), ["--exit-command", "podman"], "does not say which podman", "--device"),
    "a log tag that a label of the image makes up": (
        (5, 4),
        ["--log-tag", "--exit-command", "--log-level", "warning", "--exit-command", "PODMAN"],
        "does not say which podman",
        "--device",
    ),
    "a label with both in one word": (
        (5, 4),
        ["--log-label", "--exit-command=PODMAN", "--exit-command", "/bin/true"],
        "the version of /bin/true is not recorded",
        "configure",
    ),
}


@pytest.mark.parametrize(("version", "words", "source", "remedy"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_any_other_podman_may_have_copied_annotations_of_the_image(
    podman: Path,
    note: Callable[[tuple[int, ...]], None],
    called_by: Callable[[int], None],
    version: tuple[int, ...],
    words: list[str],
    source: str,
    remedy: str,
) -> None:
    if version:
        note(version)
    with conmon(*(word.replace("PODMAN", str(podman)) for word in words)) as pid:
        called_by(pid)
        origin = find()
    assert origin.kind == PODMAN_UNKNOWN
    assert source.replace("PODMAN", str(podman)) in origin.source
    assert remedy in origin.remedy
    assert "--runtime-flag device=KIND=NAME" in origin.remedy


def test_after_an_upgrade_the_remedy_is_to_configure_again(
    podman: Path, note: Callable[[tuple[int, ...]], None], called_by: Callable[[int], None]
) -> None:
    note((4, 3, 1))
    podman.rename(f"{podman}.old")
    shutil.copy("/bin/cat", podman)
    with conmon("--exit-command", str(podman)) as pid:
        called_by(pid)
        origin = find()
    assert origin.kind == PODMAN_UNKNOWN
    assert "another file than the one whose version is recorded" in origin.source
    assert origin.remedy.startswith("run `shim runtime configure --engine podman` again")


def test_a_person_or_a_wrapper_is_no_podman(called_by: Callable[[int], None]) -> None:
    called_by(os.getpid())
    assert find().kind == PODMAN_UNKNOWN
    called_by(2**22 + 1)  # more than any pid
    assert "a process that cannot be seen" in find().source


def test_in_the_precreate_stage_the_parent_is_podman_itself(
    podman: Path, note: Callable[[tuple[int, ...]], None], called_by: Callable[[int], None]
) -> None:
    note((5, 0))
    with subprocess.Popen([podman], stdin=subprocess.PIPE) as process:
        called_by(process.pid)
        origin = find("precreate")
        assert (origin.kind, origin.source) == (PODMAN, f"{podman} is recorded as podman 5.0")
        podman.unlink()  # an upgrade while it runs: what counts is the program that runs
        assert find("precreate").kind == PODMAN
        process.kill()
    with conmon("--exit-command", str(podman)) as pid:  # and conmon's way counts there as little
        called_by(pid)
        origin = find("precreate")
    assert (origin.kind, "--runtime-flag" in origin.remedy) == (PODMAN_UNKNOWN, False)


@pytest.mark.usefixtures("record")
def test_a_users_record_is_found_by_the_environment_of_podman_where_the_hook_gets_none(
    trusted_path: Path, podman: Path, called_by: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """podman gives its hooks no environment unless their file names one."""
    monkeypatch.setattr("shim.host.identity.is_rootful", lambda: False)
    own = trusted_path / "home/.local/state/shim"
    own.mkdir(parents=True)
    (own / "podman-programs").write_text(f"{podman_programs.Program(podman.stat(), (5, 1), str(podman))}\n")
    environ = {"HOME": str(trusted_path / "home")}
    with subprocess.Popen([podman], stdin=subprocess.PIPE, env=environ) as process:
        while not Path(f"/proc/{process.pid}/environ").read_bytes():  # the kernel sets it a moment after the exec
            time.sleep(0.01)
        called_by(process.pid)
        assert find("precreate").kind == PODMAN
        assert find("precreate", b"/nowhere").kind == PODMAN_UNKNOWN
        process.kill()


# --- which sandbox ------------------------------------------------------------------------------------------------

CONTAINERD_SANDBOX = {"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": ID}
CRIO_SANDBOX = {"io.kubernetes.cri-o.ContainerType": "sandbox", "io.kubernetes.cri-o.SandboxID": ID}
# annotations, id of the call, whether CRI-O calls, whether it is a sandbox
SANDBOXES: dict[str, tuple[dict[str, Any], str, bool, bool]] = {
    "containerd's": (CONTAINERD_SANDBOX, ID, False, True),
    "CRI-O's": (CRIO_SANDBOX, ID, True, True),
    "a container of containerd's": (
        {**CONTAINERD_SANDBOX, "io.kubernetes.cri.container-type": "container"},
        ID,
        False,
        False,
    ),
    "the type alone, from an image": ({"io.kubernetes.cri.container-type": "sandbox"}, ID, False, False),
    "the type and a wrong id": ({**CONTAINERD_SANDBOX, "io.kubernetes.cri.sandbox-id": SANDBOX}, ID, False, False),
    "CRI-O's type alone, from a Pod": ({"io.kubernetes.cri-o.ContainerType": "sandbox"}, ID, True, False),
    "CRI-O's keys in a container of it": ({**CRIO_SANDBOX, "io.kubernetes.cri-o.SandboxID": SANDBOX}, ID, True, False),
    "CRI-O's keys without its call": (CRIO_SANDBOX, ID, False, False),
    "containerd's keys in CRI-O's call": (CONTAINERD_SANDBOX, ID, True, False),
    "no id is known, as in the precreate stage": (
        {**CONTAINERD_SANDBOX, "io.kubernetes.cri.sandbox-id": ""},
        "",
        False,
        False,
    ),
    "CRI-O's, whose Pod says that it is a container": (
        {
            **CRIO_SANDBOX,
            "io.kubernetes.cri-o.ContainerType": "container",
            "io.kubernetes.cri-o.SandboxID": SANDBOX,
            "io.kubernetes.container.name": "POD",
        },
        ID,
        True,
        True,
    ),
    "its name from an image of podman's": ({"io.kubernetes.container.name": "POD"}, ID, False, False),
    "values that are no text": (
        {"io.kubernetes.cri.container-type": ["sandbox"], "io.kubernetes.cri.sandbox-id": 1},
        ID,
        False,
        False,
    ),
}


@pytest.mark.parametrize(("annotations", "id", "crio", "expected"), SANDBOXES.values(), ids=SANDBOXES.keys())
def test_a_sandbox_is_believed_by_the_id_that_only_the_engine_knows(
    annotations: dict[str, Any], id: str, crio: bool, expected: bool
) -> None:
    assert is_sandbox(annotations, id, crio=crio) is expected


@pytest.mark.parametrize(
    ("engine", "version", "step", "crio", "expected"),
    [
        ("containerd", "1.6", "CRI RunPodSandbox", False, True),
        ("containerd", "2.1", "CRI RunPodSandbox", False, True),
        ("containerd", "2.1", "CRI StartContainer", False, False),
        ("cri-o", "1.36", "CRI RunPodSandbox", True, True),
        ("cri-o", "1.36", "CRI CreateContainer", True, False),
        ("podman", "4.3", "podman run in pod", False, False),
        ("podman", "5.8", "podman run in pod", False, False),
    ],
)
def test_recorded_sandboxes_are_known(engine: str, version: str, step: str, crio: bool, expected: bool) -> None:
    """The recording writes <ID64> for each id."""
    id = "<ID64>" if expected else ID
    assert is_sandbox(recorded(engine, version, step), id, crio=crio) is expected


def test_the_name_alone_tells_a_recorded_sandbox_of_crio() -> None:
    """By which its Pod cannot hide it: CRI-O writes labels last."""
    assert is_sandbox(recorded("cri-o", "1.36", "CRI RunPodSandbox"), "another id", crio=True)


# --- CRI-O: what the container itself has -------------------------------------------------------------------------

# the value of OWN, the annotations of config.json that ask, those that count
OWN_CASES: dict[str, tuple[Any, dict[str, str], list[str]]] = {
    "the container's own": (json.dumps({KEY: NAME}), {KEY: NAME}, [KEY]),
    "the Pod's alone": (json.dumps({"other/x": "1"}), {KEY: NAME}, []),
    "one of each": (json.dumps({KEY: NAME}), {KEY: NAME, "cdi.k8s.io/pod": NAME}, [KEY]),
    "null, as for a container without any": ("null", {KEY: NAME}, []),
    "as Go escapes it": ('{"cdi.k8s.io/x\\u003c":"vendor.test/class=dev0"}', {f"{KEY}<": NAME}, [f"{KEY}<"]),
    "missing": (None, {KEY: NAME}, []),
    "no text": ({KEY: NAME}, {KEY: NAME}, []),
    "no JSON": ('{"cdi.k8s.io/x":', {KEY: NAME}, []),
    "something behind it": (json.dumps({KEY: NAME}) + "x", {KEY: NAME}, []),
    "no object": (json.dumps([KEY]), {KEY: NAME}, []),
    "a name twice": ('{"cdi.k8s.io/x":"a.b/c=d","cdi.k8s.io/x":"vendor.test/class=dev0"}', {KEY: NAME}, []),
    "nested in another member": (json.dumps({"a": {KEY: NAME}}), {KEY: NAME}, []),
    "too deep": ("[" * 100_000, {KEY: NAME}, []),
}


@pytest.mark.parametrize(("own", "asking", "counts"), OWN_CASES.values(), ids=OWN_CASES.keys())
def test_under_crio_counts_what_the_container_itself_has(own: Any, asking: dict[str, str], counts: list[str]) -> None:
    annotations = {**asking, **({} if own is None else {OWN: own})}
    found = requests(annotations, CRIO_CALLER)
    assert list(found.requests) == counts
    ignored = [key for key in asking if key not in counts]
    assert [finding.id for finding in found.findings] == (["REQUEST_IGNORED"] if ignored else [])
    for finding in found.findings:
        assert all(key in finding.text for key in ignored)
        assert 'pod-annotations = "any"' in finding.remedy
    assert requests(annotations, CRIO_CALLER, pod_annotations=ANY).requests == asking, "positive control"


def test_a_request_of_the_container_that_config_json_does_not_have_is_not_lost() -> None:
    """CRI-O writes the container's over the Pod's; where something changed that, the kubelet's request is not met."""
    text, _ = refused({KEY: "vendor.test/class=other", OWN: json.dumps({KEY: NAME})}, CRIO_CALLER)
    assert f"annotation {KEY} asks for vendor.test/class=other" in text
    assert OWN in text


# --- podman and nerdctl: what an image may have written -----------------------------------------------------------


def test_with_an_old_podman_a_container_that_asks_by_annotation_is_refused() -> None:
    text, remedy = refused({MANAGER: "libpod", KEY: NAME}, OLD)
    assert text.startswith(f"annotation {KEY} asks for {NAME}: the image may have written it")
    assert text.endswith("/usr/bin/podman is podman 4.3.1")
    assert remedy == "the ways"


def test_the_configuration_can_ignore_or_take_them() -> None:
    found = requests({MANAGER: "libpod", KEY: NAME}, OLD, podman_annotations=IGNORE)
    assert found.requests == {}
    assert [finding.id for finding in found.findings] == ["REQUEST_IGNORED"]
    assert KEY in found.findings[0].text
    found = requests({MANAGER: "libpod", KEY: NAME}, OLD, podman_annotations=ANY)
    assert (found.requests, found.findings) == ({KEY: NAME}, [])


def test_with_a_new_podman_they_are_the_clients() -> None:
    found = requests({MANAGER: "libpod", KEY: NAME}, NEW)
    assert (found.requests, found.findings) == ({KEY: NAME}, [])


def test_a_key_under_which_nerdctl_copies_labels_of_images_is_refused() -> None:
    """nerdctl 2 hands on each label whose key holds `nerdctl/`, and a key that begins as a request may hold it."""
    text, remedy = refused({KEY: NAME, "cdi.k8s.io/nerdctl/x": NAME}, CLIENT_CALLER)
    assert (KEY in text, "cdi.k8s.io/nerdctl/x" in text, "nerdctl/" in remedy) == (False, True, True)
    assert requests({KEY: NAME, "nerdctl/name": "x"}, CLIENT_CALLER).requests == {KEY: NAME}


def test_a_long_list_of_requests_makes_a_short_text() -> None:
    text, _ = refused({MANAGER: "x"} | {f"cdi.k8s.io/{number}": NAME * 50 for number in range(90)}, OLD)
    assert len(text) < 1000
    assert "and 87 more" in text


@pytest.mark.parametrize("annotations", [None, [], "x", {}, {"other": "x"}])
def test_without_a_request_there_is_nothing_to_say(annotations: Any) -> None:
    for one in (CLIENT_CALLER, CRIO_CALLER, Caller(Host(), precreate=True)):
        found = requests(annotations, one)
        assert (found.is_sandbox, found.requests, found.findings) == (False, {}, [])


def test_the_origin_says_what_it_goes_by() -> None:
    assert of({}, CLIENT_CALLER).kind == CLIENT
    assert "CRI_O_EXTERNAL=1" in of({}, CRIO_CALLER).source
    assert of({MANAGER: ""}, OLD).source == "/usr/bin/podman is podman 4.3.1"
    assert podman_caller.find(World(), precreate=False, environ={}, proc="/nonexistent").kind == PODMAN_UNKNOWN
