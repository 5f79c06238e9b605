"""podman 4.3 reads what `shim runtime configure` writes, as root and without, in front of runc and of crun."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from engines.harness import programs
from engines.harness.device import NAME, UNKNOWN, WITH, WITHOUT, FakeDevice, assert_reason, seen
from engines.harness.images import BUSYBOX
from engines.harness.podman import CONTAINERS_CONF, Podman
from engines.harness.runtimes import RuntimeName
from engines.harness.sandbox import USER, Result, Sandbox

pytestmark = pytest.mark.engine

# podman 4.3 may have taken an annotation from an image, so it does not count: asked is by an option for the runtime
REQUEST = [f"device={NAME}"]


class OrdinaryPodman(Podman):
    """podman that finds its files where it looks for them by itself: a main file is there, nothing of the shim is."""

    def __init__(self, sandbox: Sandbox, *, rootless: bool) -> None:
        self.main = Path("/etc/containers/containers.conf")
        self._box = sandbox
        super().__init__(sandbox, rootless=rootless)

    def _write(self, name: str, text: str, values: dict[str, str]) -> None:
        if name == "containers.conf":
            if self.rootless:
                self.main = self.directory / "home/.config/containers/containers.conf"
            text = CONTAINERS_CONF
            for word, value in values.items():
                text = text.replace(word, value)
            self.put(str(self.main), text)
        else:
            super()._write(name, text, values)

    def environment(self) -> dict[str, str]:
        variables = super().environment()
        del variables["CONTAINERS_CONF"]
        return variables

    def put(self, path: str, text: str) -> None:
        """Write a file, "" takes it away."""
        script = 'mkdir -p "${0%/*}" && rm -f "$0" && if [ -n "$1" ]; then cat > "$0"; fi'
        self._box.run("/bin/sh", "-c", script, path, text[:1], stdin=text).ok()
        if self.rootless:
            self._box.run("chown", "-R", USER, self.directory / "home").ok()

    def main_text(self) -> str:
        """The main file."""
        return self._box.run("cat", self.main).ok()


@pytest.fixture(scope="module", params=["rootful", "rootless"])
def ordinary(sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[OrdinaryPodman]:
    engine = OrdinaryPodman(sandbox, rootless=request.param == "rootless")
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def device(sandbox: Sandbox, ordinary: OrdinaryPodman, low_level: RuntimeName) -> FakeDevice:
    sandbox.reset()
    sandbox.link_low_level("shim", programs.find(low_level)[0])
    fake = FakeDevice(sandbox, same_path=ordinary.rootless)
    fake.publish()
    return fake


class Configured:
    """`shim runtime configure` as whoever calls podman, and `remove` at the end."""

    def __init__(self, engine: OrdinaryPodman, box: Sandbox, low_level: RuntimeName) -> None:
        self._engine, self._box, self._low_level = engine, box, low_level

    def __call__(self, launcher: Path, *words: str) -> None:
        low_level = [f"--low-level={self._low_level}", f"--path={launcher}"]
        self.run("configure", *words, *low_level).ok()
        assert self.run("configure", *words, *low_level).ok() == "podman: nothing to change\n"

    def remove(self) -> None:
        self.run("remove").ok()

    def run(self, verb: str, *words: str) -> Result:
        user = USER if self._engine.rootless else None
        command = (self._box.venv / "bin/shim", "runtime", verb, "--engine=podman")
        return self._box.run(*command, *words, user=user, env=self._engine.environment())


@pytest.fixture
def configure(ordinary: OrdinaryPodman, sandbox: Sandbox, low_level: RuntimeName) -> Iterator[Configured]:
    before = ordinary.main_text()
    configured = Configured(ordinary, sandbox, low_level)
    yield configured
    configured.remove()
    assert ordinary.main_text() == before
    assert ordinary.run("--rm", script="true").status != 0, "podman has forgotten the runtime"


def chosen(engine: Podman) -> str:
    return engine("info", "--format={{.Host.OCIRuntime.Name}}").ok().strip()


def test_the_runtime_is_there_by_its_name_and_the_default_stays(
    ordinary: OrdinaryPodman, configure: Configured, shim: Path, device: FakeDevice
) -> None:
    before = chosen(ordinary)
    configure(shim)
    assert chosen(ordinary) == before
    assert seen(ordinary.run("--rm", script=device.probe, runtime="").ok()) == WITHOUT
    assert seen(ordinary.run("--rm", script=device.probe, runtime="shim", flags=REQUEST).ok()) == WITH


def test_as_the_default_it_needs_no_name(
    ordinary: OrdinaryPodman, configure: Configured, shim: Path, device: FakeDevice
) -> None:
    configure(shim, "--set-as-default")
    assert chosen(ordinary) == "shim"
    assert seen(ordinary.run("--rm", script=device.probe, runtime="", flags=REQUEST).ok()) == WITH


def test_c7_it_is_the_default_beside_a_drop_in_that_is_read_late(
    ordinary: OrdinaryPodman, configure: Configured, shim: Path
) -> None:
    """Our drop-in has a name behind the other's, whose keys count else."""
    late = f"{ordinary.main}.d/99-zz.conf"
    ordinary.put(late, '[engine]\nruntime = "crun"\n')
    try:
        configure(shim, "--set-as-default")
        assert chosen(ordinary) == "shim"
        ordinary.put(late.replace("99-zz", "99-zzzz"), '[engine]\nruntime = "crun"\n')
        assert chosen(ordinary) == "crun", "the name decides"
    finally:
        for path in (late, late.replace("99-zz", "99-zzzz")):
            ordinary.put(path, "")


def test_without_the_drop_in_there_is_no_such_runtime(ordinary: OrdinaryPodman) -> None:
    """The tests above can fail."""
    assert ordinary.run("--rm", script="true", runtime="shim").status != 0


def test_podman_reads_our_error_from_the_log(
    ordinary: OrdinaryPodman, configure: Configured, shim: Path, sandbox: Sandbox, low_level: RuntimeName
) -> None:
    """Because of runtime_supports_json: nothing of this launcher comes by standard error."""
    mute = sandbox.host / "mute"
    ordinary.put(str(mute), f'#!/bin/sh\nexec {shim} "$@" 2> /dev/null\n')
    sandbox.run("chmod", "755", mute).ok()
    sandbox.link_low_level("mute", programs.find(low_level)[0])
    configure(mute)
    assert_reason(ordinary.run("--rm", script="true", runtime="shim", flags=[f"device={UNKNOWN}"]).err)


def test_a_container_without_cgroups_is_refused_exactly_where_the_low_level_runtime_has_none(
    ordinary: OrdinaryPodman, configure: Configured, shim: Path, low_level: RuntimeName
) -> None:
    """By runtime_supports_nocgroup, in the spelling that has an effect."""
    configure(shim)
    ran = ordinary("--runtime=shim", "run", "--rm", "--network=none", "--cgroups=disabled", BUSYBOX, "/bin/true")
    assert (ran.status == 0) is (low_level == "crun"), ran.err
    assert ran.status == 0 or "not compatible with NoCgroups" in ran.err


def test_a_hook_is_refused_since_images_could_ask_by_it(configure: Configured) -> None:
    """Debian 12 has podman 4.3.1, which copies the annotations of an image's manifest."""
    refused = configure.run("configure", "--hook")
    assert refused.status == 1
    assert "nothing was changed" in refused.err
    assert "PODMAN_HOOK" in refused.err
    assert "--runtime-flag device=KIND=NAME" in refused.err


def test_verify_says_that_annotations_do_not_count(configure: Configured, shim: Path) -> None:
    configure(shim)
    found = {one["id"]: one for one in json.loads(configure.run("verify", "-o", "json").ok())[0]["findings"]}
    assert "podman 4.3.1 (/usr/bin/podman)" in found["PODMAN_ANNOTATIONS"]["text"]
    assert "PODMAN_CHANGED" not in found
