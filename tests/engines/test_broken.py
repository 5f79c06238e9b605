"""An installation or a configuration that is broken, under real engines: who asks is refused, everything else goes on.

With any configuration, after each boot, no container started once Python or its modules were broken, although none
asked; and a probe by exec of a container that ran well failed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engines.harness.containerd import Containerd
from engines.harness.cri import Cri, CriError, Pod
from engines.harness.device import NAME
from engines.harness.images import WAIT
from engines.harness.installation import Installation
from engines.harness.podman import Podman
from engines.harness.sandbox import Sandbox

pytestmark = pytest.mark.engine

ASKS = {"cdi.k8s.io/vendor-test_one": NAME}
HELLO = ("/bin/sh", "-c", "echo hello")


@pytest.fixture(scope="module")
def cri(sandbox: Sandbox, containerd: Containerd) -> Cri:
    return Cri(sandbox, containerd.socket, containerd.directory / "cri")


@pytest.fixture
def pod(cri: Cri, request: pytest.FixtureRequest) -> Iterator[Pod]:
    made = cri.run_pod(request.node.callspec.id if hasattr(request.node, "callspec") else request.node.name, {}, "shim")
    yield made
    made.remove()


def configure(sandbox: Sandbox, text: str) -> None:
    """A configuration as it is after a boot: nothing of it is in /run/shim yet."""
    (sandbox.scratch / "etc-shim/config.toml").write_text(text, encoding="ascii")
    sandbox.run("/bin/sh", "-c", "rm -f /run/shim/index* /run/shim/needles*").ok()


@pytest.mark.parametrize("what", ["interpreter", "module"])
def test_without_python_pods_start_that_ask_for_nothing(
    sandbox: Sandbox, installation: Installation, cri: Cri, pod: Pod, what: str
) -> None:
    before = pod.create("before", ASKS, WAIT)
    pod.start(before)
    configure(sandbox, '[sources]\nenvironment = "any"\n')
    with installation.without(what):
        assert pod.execute(before, *HELLO) == "hello\n"
        pod.update(before, 64 << 20)
        plain = pod.create("plain", {}, WAIT)
        pod.start(plain)
        assert pod.execute(plain, *HELLO) == "hello\n"
        another = cri.run_pod(f"another-{what}", {}, "shim")
        another.remove()
        with pytest.raises(CriError, match="SHIM_BROKEN"):
            pod.start(pod.create("asks", ASKS, WAIT))
        pod.stop(before)
    after = pod.create("after", ASKS, WAIT)
    pod.start(after)
    assert pod.execute(after, "/bin/sh", "-c", "echo $SHIM_TEST") == "one\n"


@pytest.mark.parametrize("what", ["interpreter", "module"])
def test_without_python_a_variable_may_ask(
    sandbox: Sandbox, installation: Installation, rootful: Podman, what: str
) -> None:
    """The launcher cannot know that the configuration has this source off."""
    configure(sandbox, "[sources]\n")
    with installation.without(what):
        assert rootful.run("--rm", script="echo hello").ok() == "hello\n"
        refused = rootful.run("--rm", "--env=NVIDIA_VISIBLE_DEVICES=all", script="echo hello")
        assert "SHIM_BROKEN" in refused.err
    assert rootful.run("--rm", "--env=NVIDIA_VISIBLE_DEVICES=all", script="echo hello").ok() == "hello\n"


@pytest.mark.parametrize(
    ("variable", "starts"), [("NVIDIA_VISIBLE_DEVICES=all", False), ("NVIDIA_VISIBLE_DEVICES=void", True)]
)
def test_a_configuration_that_cannot_be_read_stops_who_asks_by_a_variable(
    sandbox: Sandbox, rootful: Podman, variable: str, starts: bool
) -> None:
    """The container started without its device and without a word: the defaults had the source off."""
    configure(sandbox, '[sources]\nenvironment = "any"\n[log\n')
    done = rootful.run("--rm", f"--env={variable}", script="echo hello")
    if starts:
        assert done.ok() == "hello\n"
    else:
        assert "SETTINGS: /etc/shim/config.toml:3: it is not valid TOML" in done.err
