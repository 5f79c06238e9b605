"""Start a Kubernetes of one node without any network, run a command in it, end everything: `DIR SHIM COMMAND...`.

DIR is what build.sh made, SHIM the launcher under test. etcd, the control plane, containerd and kubelet run in private
namespaces (mount, pid, net, ipc, uts) and below one temporary directory, with everything where a node has it
(/etc/containerd, /run/containerd, /var/lib/kubelet, /etc/cdi). The command gets these variables:

    KUBECONFIG   of an administrator; kubectl of the right version is first in PATH
    NODE_DIR     the temporary directory: logs in log/, pids in NAME.pid
    SHIM         the launcher

Afterwards every daemon is ended by its pid, the pid namespace ends what is left of containers, and mounts, cgroups and
the temporary directory are removed. Needs root, and what build.sh installs.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from engines.harness import images

from kubernetes import configs

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BUILT = ("kubelet", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
CGROUPS = Path("/sys/fs/cgroup")
URL = "http://127.0.0.1:2379"
INSIDE = "--inside"


class NodeError(Exception):
    """The node does not start."""


def report(text: str) -> None:
    sys.stderr.write(f"node: {text}\n")


def run(*words: str | Path) -> None:
    """Run a command that must succeed; raises NodeError with its message."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NodeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


# --- outside of the namespaces ----------------------------------------------------------------------------------------


def outside(directory: Path, shim: Path, command: list[str]) -> int:
    """Enter the namespaces; the exit status of the command."""
    missing = [name for name in BUILT if not (directory / "bin" / name).is_file()]
    if missing:
        raise NodeError(f"{directory}/bin/{missing[0]} is missing: build.sh {directory}")
    scratch = Path(tempfile.mkdtemp(prefix="k", dir="/tmp"))  # a socket's path has 107 bytes at most
    scratch.chmod(0o755)
    # The end that is held is closed when this process ends, in whatever way: then process 1 inside ends, too.
    lives, held = os.pipe()
    enter = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
        "--net",
        "--ipc",
        "--uts",
        "--",
    ]
    words = [sys.executable, "-B", "-m", "kubernetes.node", INSIDE, f"{scratch}:{lives}"]
    process = subprocess.Popen([*enter, *words, directory, shim, *command], pass_fds=[lives])
    os.close(lives)
    try:
        return process.wait()
    finally:
        os.close(held)
        process.wait()
        remove_cgroups(scratch.name)
        shutil.rmtree(scratch)


def remove_cgroups(name: str) -> None:
    """Remove the directories of that name in all hierarchies, of version 1 or 2."""
    for _ in range(100):
        there = [top / name for top in (CGROUPS, *CGROUPS.iterdir()) if (top / name).is_dir()]
        if not there:
            return
        for top in there:
            for directory, _, _ in os.walk(top, topdown=False):
                try:
                    Path(directory).rmdir()
                except OSError:  # a process in it has not ended yet
                    pass
        time.sleep(0.1)
    report(f"cgroups {name} stay")


# --- process 1 --------------------------------------------------------------------------------------------------------


def process_1(scratch: Path, lives: int, node: Node) -> int:
    """Take orphans until the child that does the work has ended, or the process outside has."""
    child = os.fork()
    if child == 0:
        os.close(lives)
        status = 1
        try:
            status = node.work()
        except NodeError as error:
            report(f"{scratch}: {error}")
        except BaseException:  # a forked child must not return into its parent's code
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    while True:
        if select.select([lives], [], [], 0.05)[0]:
            return 143  # with process 1 everything inside ends
        while True:
            try:
                ended, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1
            if ended == child:
                return os.waitstatus_to_exitcode(status) & 0xFF
            if ended == 0:
                break


# --- inside -----------------------------------------------------------------------------------------------------------


class Node:
    """The daemons of the node.

    Arguments:
        scratch: the temporary directory.
        directory: with the programs.
        shim: the launcher.
        command: what runs on the node when it is ready.
    """

    def __init__(self, scratch: Path, directory: Path, shim: Path, command: list[str]) -> None:
        self.scratch = scratch
        self.shim = shim
        self.command = command
        self.daemons: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.environment = {
            "PATH": f"{directory}/bin:{SEARCH}",
            "HOME": str(scratch / "home"),
            "TMPDIR": str(scratch / "tmp"),
            "LANG": "C.UTF-8",
            "KUBECONFIG": str(scratch / "admin.conf"),
            "NODE_DIR": str(scratch),
            "SHIM": str(shim),
            "CONTAINERD_NAMESPACE": "k8s.io",
        }

    def work(self) -> int:
        """Start everything, run the command, end everything; the command's exit status."""
        try:
            self.arrange()
            self.write_files()
            self.start_all()
            return subprocess.run(self.command, env={**os.environ, **self.environment}, check=False).returncode & 0xFF
        except NodeError:
            for name, _ in self.daemons:
                text = (self.scratch / "log" / f"{name}.log").read_text(errors="replace")
                sys.stderr.write(f"--- the end of {name}.log\n{text[-2500:]}\n")
            raise
        finally:
            self.stop_all()

    def arrange(self) -> None:
        """Mounts of this node alone."""
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{configs.ADDRESS}/32", "dev", "lo")
        run("hostname", configs.NODE)
        run("mount", "--make-rprivate", "/")
        run("mount", "--make-rshared", "/")  # kubelet may ask for shared mounts; nothing of it is seen outside
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        Path("/run/lock").mkdir(0o1777)
        # A runtime gives its standard streams to the container's user: a node of its own, not the machine's /dev/null.
        os.mknod("/run/null", 0o20666, os.makedev(1, 3))
        Path("/run/null").chmod(0o666)
        run("mount", "--bind", "/run/null", "/dev/null")
        for name in ("home", "tmp", "log", "containerd", "kubelet", "apiserver", "sysctl"):
            (self.scratch / name).mkdir()
        for place, name in (("/etc", "etc"), ("/var/lib", "lib"), ("/usr/local", "local")):
            upper, work = self.scratch / name / "upper", self.scratch / name / "work"
            upper.mkdir(parents=True)
            work.mkdir()
            layers = f"lowerdir={place},upperdir={upper},workdir={work}"
            run("mount", "-t", "overlay", "-o", layers, "overlay", place)
        # containerd's overlays cannot lie on an overlay, and this kubelet's directory of plugins is a constant
        for name, place in (
            ("log", "/var/log"),
            ("kubelet", "/var/lib/kubelet"),
            ("containerd", "/var/lib/containerd"),
        ):
            Path(place).mkdir(exist_ok=True)
            run("mount", "--bind", self.scratch / name, place)
        for key, value in configs.SYSCTLS.items():
            file = self.scratch / "sysctl" / key.replace("/", ".")
            file.write_text(f"{value}\n")
            run("mount", "--bind", file, f"/proc/sys/{key}")
        for top in (entry for entry in CGROUPS.iterdir() if (entry / "cgroup.procs").is_file()):
            own = top / self.scratch.name
            own.mkdir()
            for knob in ("cpuset.cpus", "cpuset.mems"):  # a new cpuset is empty, and can hold no process
                if (top / knob).is_file():
                    (own / knob).write_text((top / knob).read_text())

    def write_files(self) -> None:
        """Configuration of all daemons, tokens of their users, images."""
        s = self.scratch
        self.write("/etc/containerd/config.toml", configs.CONTAINERD.replace("@PAUSE@", images.PAUSE))
        self.write("/etc/cni/net.d/10-node.conflist", json.dumps(configs.CNI))
        self.write(s / "kubelet.json", json.dumps({**configs.KUBELET, "cgroupRoot": f"/{s.name}"}))
        run("openssl", "genrsa", "-out", s / "service-account.key", "2048")
        run("openssl", "rsa", "-in", s / "service-account.key", "-pubout", "-out", s / "service-account.pub")
        tokens = {file: os.urandom(16).hex() for file in configs.USERS}
        users = configs.USERS.items()
        self.write(
            s / "tokens.csv", "".join(f'{tokens[file]},{user},{user},"{group}"\n' for file, (user, group) in users)
        )
        for file, token in tokens.items():
            document = configs.kubeconfig(file, token, f"{s}/apiserver/apiserver.crt")
            self.write(s / f"{file}.conf", json.dumps(document))
        for name, reference in (("busybox", images.BUSYBOX), ("pause", images.PAUSE)):
            images.write_image(s / f"{name}.tar", reference)

    def write(self, file: Path | str, text: str) -> None:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text)

    def start_all(self) -> None:
        """Start the daemons in their order, until the node is ready for pods."""
        s = self.scratch
        self.call(str(self.shim), "runtime", "configure", "--engine=containerd")
        peers = f"--listen-peer-urls={URL[:-1]}0"
        clients = (f"--listen-client-urls={URL}", f"--advertise-client-urls={URL}")
        self.start("etcd", "etcd", f"--data-dir={s}/etcd", *clients, peers)
        self.start("containerd", "containerd")
        self.start("kube-apiserver", *configs.apiserver(str(s)))
        self.wait("containerd", 60, "ctr", "version")
        for image in ("busybox", "pause"):
            self.call("ctr", "images", "import", f"{s}/{image}.tar")
        self.wait("kube-apiserver", 120, "kubectl", "get", "--raw=/readyz")
        manager = ("kube-controller-manager", f"--kubeconfig={s}/controller-manager.conf")
        keys = (
            f"--service-account-private-key-file={s}/service-account.key",
            f"--root-ca-file={s}/apiserver/apiserver.crt",
        )
        rest = ("--use-service-account-credentials=true", "--leader-elect=false", f"--cert-dir={s}/apiserver")
        self.start("kube-controller-manager", *manager, *keys, *rest)
        self.start("kube-scheduler", "kube-scheduler", f"--kubeconfig={s}/scheduler.conf", "--leader-elect=false")
        self.start("kubelet", *configs.kubelet(str(s)))
        ready = ("--for=condition=Ready", f"node/{configs.NODE}", "--timeout=1s")
        self.wait("kubelet", 120, "kubectl", "wait", *ready)
        # a pod is refused until its namespace has this account
        account = ("serviceaccount", "default", "-o", "jsonpath={.secrets[0].name}")
        self.wait("kube-controller-manager", 60, "kubectl", "get", *account, prints=True)

    def start(self, name: str, *words: str) -> None:
        """Start a daemon in a session of its own, with a log and a file that has its pid."""
        with (self.scratch / "log" / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd="/",
                start_new_session=True,
            )
        (self.scratch / f"{name}.pid").write_text(str(process.pid))
        self.daemons.append((name, process))

    def wait(self, daemon: str, seconds: float, *words: str, prints: bool = False) -> None:
        """Until a command succeeds (and prints); raises NodeError when a daemon has ended, or after a time."""
        end = time.monotonic() + seconds
        while True:
            done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
            if done.returncode == 0 and (done.stdout.strip() or not prints):
                return
            for name, process in self.daemons:
                if process.poll() is not None:
                    raise NodeError(f"{name} ended with {process.returncode}")
            if time.monotonic() > end:
                raise NodeError(f"{daemon} was waited for {seconds} s: {' '.join(words)}: {done.stdout} {done.stderr}")
            time.sleep(0.1)

    def call(self, *words: str) -> None:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NodeError(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")

    def stop_all(self) -> None:
        """In reverse order: an API server whose etcd has gone first does not end."""
        for name, process in reversed(self.daemons):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                report(f"{name} does not end by itself")
                process.kill()
                process.wait()


def main(words: list[str]) -> int:
    """The exit status of the command, 1 where the node does not start."""
    inside = words.pop(0) == INSIDE if words[:1] == [INSIDE] else False
    where = words.pop(0) if inside else ""
    if len(words) < 3:
        sys.exit(f"usage: {sys.argv[0]} DIR SHIM COMMAND...")
    directory, shim = (Path(word).absolute() for word in words[:2])
    try:
        if inside:
            scratch, _, lives = where.partition(":")
            return process_1(Path(scratch), int(lives), Node(Path(scratch), directory, shim, words[2:]))
        return outside(directory, shim, words[2:])
    except NodeError as error:
        report(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
