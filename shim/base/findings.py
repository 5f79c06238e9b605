"""Findings: what is wrong, in one vocabulary for the whole project.

The create path, `validate`, `verify` and `doctor` report the same fact with the same id; the table below is the only
place where ids, levels and remedies are defined, and docs/findings.md has an entry for each. HOT.
"""

from __future__ import annotations

from shim.base.paths import unexpected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ERROR = "ERROR"
WARNING = "WARNING"
NOTE = "NOTE"

# id -> (level, usual remedy). A finding may carry a more precise remedy of its own.
TABLE: dict[str, tuple[str, str]] = {
    "SPEC_SYNTAX": (ERROR, "mend the file; `shim cdi validate FILE` shows every fault with its line"),
    "SPEC_INVALID": (ERROR, "mend the file; `shim cdi validate FILE` shows every fault with its line"),
    "SPEC_UNREADABLE": (
        ERROR,
        "check owner, mode and type of the file: a spec is a regular file that the runtime can read",
    ),
    "SPEC_DIR_UNREADABLE": (ERROR, "check owner and mode of the directory"),
    "SPEC_UNTRUSTED": (
        ERROR,
        "chown it and every directory above it to root, and take write permission from group and others (chmod go-w)",
    ),
    "SPEC_CONFLICT": (
        ERROR,
        "remove the device from one of the two files, or move one to a directory of higher priority",
    ),
    "SPEC_TARGET": (ERROR, "name a single file, for example acme.com-gpu.yaml, without any directory"),
    "SPEC_WRITE": (ERROR, "check owner, mode and free space of the spec directory"),
    "SPEC_TAKEN": (ERROR, "--takeover moves the other file aside; --class gives the spec another kind"),
    "SPEC_SHRINKS": (ERROR, "check that the driver is whole; --allow-shrink writes the spec all the same"),
    "SPEC_LOWERED": (ERROR, "name an engine that reads a later version of CDI with --for, or leave it out"),
    "SPEC_UNLOCKED": (ERROR, "`shim cdi lock --check` shows every difference; if they are wanted, run `shim cdi lock`"),
    "SPEC_TOO_NEW": (ERROR, "`shim cdi transform version --for ENGINE=VERSION FILE` lowers it"),
    "DISCOVERY_NOTHING": (
        ERROR,
        "load the driver's modules and install its packages; `--vendor NAME` reports what is missing of a vendor",
    ),
    "DISCOVERY_STATE": (ERROR, "check owner, mode and free space of /var/lib/shim"),
    "DISCOVERY_BUSY": (ERROR, "let the other `shim cdi generate` or `refresh` end, then try again"),
    "TAKEOVER": (ERROR, "check owner, mode and free space of /var/lib/shim and of the spec directories"),
    "MIGRATE_NOTHING": (ERROR, "name the toolkit that is installed here: --from nvidia, or --from amd"),
    "MIGRATE_ORDER": (ERROR, "undo the later migration first: `shim runtime migrate --from VENDOR --undo`"),
    "MIGRATE_LEFT": (WARNING, "see whether anything needs it; the vendor's toolkit stays installed until then"),
    "DEVICE_UNKNOWN": (ERROR, "`shim cdi list -v` shows every device and the files that were refused"),
    "DEVICE_NAME": (ERROR, "a device is named VENDOR/CLASS=NAME, for example nvidia.com/gpu=0"),
    "ANNOTATION_INVALID": (ERROR, "the value is a comma-separated list of VENDOR/CLASS=NAME without spaces"),
    "ANNOTATION_NEAR": (
        WARNING,
        "write the key as cdi.k8s.io/NAME with a NAME of your own, and give each device an annotation of its own",
    ),
    "SPEC_STALE": (ERROR, "run `shim cdi refresh`"),
    "NODE_UNUSABLE": (ERROR, "check that the driver is loaded and that the spec is fresh"),
    "NODE_PHANTOM": (
        WARNING,
        "check that the driver is loaded, and write the spec anew, best without numbers: they change at a reboot",
    ),
    "DEVNUM_STALE": (WARNING, "write the spec anew: the driver was loaded again since it was generated"),
    "NODE_OWNER": (WARNING, "write the spec anew, or take owner and mode out of it: they come from the host then"),
    "REQUEST_ORIGIN": (ERROR, "ask with --device, which only the client or the administrator can write"),
    "REQUEST_IGNORED": (WARNING, "ask with --device, which only the client or the administrator can write"),
    "REQUEST_LIMIT": (ERROR, "ask for fewer devices; a name such as KIND=all may stand for many"),
    "HOOK_UNTRUSTED": (
        ERROR,
        "let root own the program and each directory above it, writable by nobody else, or correct the path",
    ),
    "HOOK_MISSING": (ERROR, "install the program that the spec names, or write the spec anew"),
    "HOOK_FAILED": (WARNING, "mend the cause that the message names, then create the container anew"),
    "HOOK_KEPT": (WARNING, "write it by hand where it is needed in the other form"),
    "HOOK_STAGE": (WARNING, "ask whoever writes the spec for a createRuntime or createContainer hook"),
    "HOOK_ENVIRONMENT": (WARNING, "take the variable out of the hook's env in the spec"),
    "TARGET_FORBIDDEN": (ERROR, "correct the path in the spec: an absolute one without .., outside of /proc and /sys"),
    "MOUNT_OPTION": (ERROR, "correct the options of the mount in the spec"),
    "KIND_SHORT": (WARNING, "give the class a longer name"),
    "MOUNT_NOT_BOUND": (WARNING, "add rbind (or bind) to the options of the mount"),
    "MOUNT_MISSING": (
        ERROR,
        "write the spec anew with the program that generates it, as after an update of the driver, or install the file",
    ),
    "GID_UNMAPPED": (
        WARNING,
        "map the group of the host into the container's user namespace, or take it out of the spec",
    ),
    "NODE_CLOSED": (WARNING, "map the owner or the group of the node into the container, or let others use the node"),
    "CWD_FORBIDDEN": (ERROR, "give the container a working directory outside /proc"),
    "RESTORE_UNTRUSTED": (ERROR, "create the container anew; or take the request out of the checkpoint's annotations"),
    "CONFIG_JSON": (
        ERROR,
        "the bundle's config.json must be a regular file with one JSON object, no name twice, at most 16 MiB",
    ),
    "CONFIG_WRITE": (ERROR, "check that the directory is writable and has space left"),
    "OPTION_UNKNOWN": (ERROR, "leave the option out, and report it so that it can be known"),
    "SHIM_BROKEN": (ERROR, "install shim again; the message holds the command"),
    "LOWLEVEL_MISSING": (ERROR, "install runc or crun, or say where it is: ln -s /path/to/it /etc/shim/low-level/shim"),
    "LOWLEVEL_EXEC": (ERROR, "check the low-level runtime that /etc/shim/low-level points to"),
    "SETTINGS": (ERROR, "mend the configuration file"),
    "SETTINGS_UNKNOWN_KEY": (WARNING, "remove the key, or correct its spelling"),
    "RECORD_MISSING": (ERROR, "`shim explain --bundle DIR` explains a bundle without a record"),
    "REPORT_INVALID": (ERROR, "let `shim explain --bundle DIR --report FILE` write it anew"),
    "REPORT_UNANSWERED": (ERROR, "replay it with the version of shim that wrote it"),
    "REPORT_DIFFERS": (WARNING, "the table shows each member of the decision that differs"),
    "REPORT_PRIVATE": (ERROR, "save it without --private, and look through it before it is passed on"),
    "SETTINGS_UNTRUSTED": (
        ERROR,
        "give the file and every directory above it to root (rootless: or to you), writable by nobody else",
    ),
    "SOURCE_OFF": (
        NOTE,
        "ask by annotation or --device (docker before 24: runtimeArgs, podman before 4.6: --runtime-flag), or switch "
        "the source on in the configuration",
    ),
    "SOURCE_ANY": (WARNING, 'set the source to "off" or "privileged" in the configuration'),
    "SOURCE_UNPRIVILEGED": (
        WARNING,
        "ask by annotation or --device (docker before 24: runtimeArgs, podman before 4.6: --runtime-flag), or let the "
        "source count for every container",
    ),
    "SOURCE_VALUE": (ERROR, "write `all`, `none`, `void`, or indexes, ids and VENDOR/CLASS=NAME, joined by commas"),
    "SPEC_NAME": (WARNING, "rename the file: a spec's name ends in .yaml or .json"),
    "NETDEV_ROOTLESS": (ERROR, "let the container be started by root, or leave the network device out"),
    "NETDEV_NAME": (ERROR, "mend hostInterfaceName and name of netDevices in the spec"),
    "NETDEV_HOST_NETWORK": (ERROR, "give the container a network namespace of its own"),
    "NETDEV_STATE": (ERROR, "let the runtime start this as a createRuntime and poststop hook, with a writable bundle"),
    "NETDEV_PRIVILEGE": (ERROR, "the runtime needs CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SETPCAP"),
    "NETDEV_MISSING": (ERROR, "`ip link` lists the interfaces; another container may have it"),
    "NETDEV_NAME_TAKEN": (ERROR, "give it another name in the spec, or one that ends in %d"),
    "NETDEV_ENSLAVED": (ERROR, "take it out of the bridge, bond or VRF first"),
    "NETDEV_MOVE": (ERROR, "give the container another interface"),
    "NETDEV_ADDRESS": (ERROR, "remove the address from the interface, or let the container's network take it"),
    "NETDEV_LOST": (WARNING, "`ip -d link` shows where it is and under which names"),
    "ENGINE_MISSING": (
        ERROR,
        "name one with --engine, or its file with --config; `shim runtime configure --help` lists them",
    ),
    "ENGINE_CONFIG_UNREADABLE": (ERROR, "run it as root, and check owner, mode and type of the file"),
    "ENGINE_CONFIG_SYNTAX": (ERROR, "mend the file at that line: the engine refuses it as well"),
    "ENGINE_CONFIG_SHAPE": (ERROR, "write it as a table with a header of its own (TOML), or as an object (JSON)"),
    "ENGINE_CONFIG_VERSION": (ERROR, "install a shim that knows this version, or write the file in version 3"),
    "ENGINE_CONFIG_OWNED": (ERROR, "change the file from which it is made; the message names it"),
    "ENGINE_CONFIG_OTHER": (WARNING, "name the file that the daemon reads with --config"),
    "CONFIG_DEAD_SECTION": (ERROR, "rename the section to that of this version of the file; the message has its name"),
    "CONFIG_HEADER_UNQUOTED": (ERROR, "put the plugin's name into quotes, as the message shows"),
    "CONFIG_TYPE": (ERROR, "give the value its type: true is no text, so it stands without quotes"),
    "CRI_DISABLED": (ERROR, "take cri out of disabled_plugins, then restart containerd"),
    "DROP_IN_UNUSED": (ERROR, "give it a name and a directory that the engine reads; `shim runtime configure` does"),
    "HANDLER_MISSING": (ERROR, "run `shim runtime configure`, or use one of the runtimes that are there"),
    "RUNTIME_TYPE_MISSING": (ERROR, 'add runtime_type = "io.containerd.runc.v2"; `shim runtime configure` does'),
    "RUNTIME_BINARY_MISSING": (ERROR, "install the program, or correct the path; `shim runtime configure` does"),
    "RUNTIME_LOST": (ERROR, "nothing was written; register the runtimes in a single file, that which is imported last"),
    "RUNTIME_DEFAULT": (
        WARNING,
        "choose it for each container, or by a RuntimeClass, and give back the former default",
    ),
    "RUNTIME_CGROUPS": (
        WARNING,
        "give it the same options as the default runtime; `shim runtime configure` copies them",
    ),
    "KUBELET_CGROUPS": (ERROR, "give the runtime and the kubelet the same cgroup driver, then restart the engine"),
    "RUNTIME_IGNORED": (ERROR, "take out the key that the message names; `shim runtime configure` does"),
    "RUNTIME_ANNOTATIONS": (WARNING, 'set container_annotations = ["cdi.k8s.io/*"]; `shim runtime configure` does'),
    "POD_REQUESTS": (ERROR, "take the pattern out of pod_annotations; container_annotations is enough"),
    "VENDOR_REQUESTS": (WARNING, "ask by annotation, or let the source count in the configuration"),
    "RUNTIME_JSON": (WARNING, "run `shim runtime configure --engine podman` anew"),
    "PODMAN_ANNOTATIONS": (
        WARNING,
        "ask by `podman --runtime shim --runtime-flag device=KIND=NAME run …`, or install podman 4.6 or later",
    ),
    "PODMAN_HOOK": (
        ERROR,
        "register the runtime (`shim runtime configure --engine podman`) and ask by "
        "`podman --runtime shim --runtime-flag device=KIND=NAME run …`, or install podman 4.6 or later",
    ),
    "PODMAN_CHANGED": (ERROR, "run `shim runtime configure --engine podman` again"),
    "HOOK_DOUBLE": (WARNING, "remove the hook's file, unless its containers ask for no device by CDI names"),
    "LAUNCHER_UNTRUSTED": (
        ERROR,
        "let root own it and each directory above it, writable by nobody else; `make install` puts it so",
    ),
    "RUN_DIR_UNTRUSTED": (WARNING, "remove it: the next create makes it, with mode 0700"),
    "CONFIG_UNTRUSTED": (
        WARNING,
        "let root own it and each directory above it, writable by nobody else (`chown root`, `chmod go-w`)",
    ),
    "LOWLEVEL_MISMATCH": (
        WARNING,
        "choose one with --low-level, or give the engine a launcher of its own with --path /usr/local/bin/shim-NAME",
    ),
    "LOWLEVEL_TAKEN": (ERROR, "name another launcher with --path, or say with --low-level which runtime shall be used"),
    "ANNOTATION_UNSUPPORTED": (NOTE, "register a runtime with runtimeArgs that ask, or install docker 24 or later"),
    "CDI_REFUSES": (ERROR, "give the engine's own CDI the spec directories of shim"),
    "SPEC_DIRS_DIFFER": (WARNING, "give both the same spec directories, in the same order"),
    "CDI_UNSUPPORTED": (WARNING, "install a later engine, or take the key out: the runtime shim does not need it"),
    "CDI_OFF": (NOTE, "`shim runtime configure --enable-cdi` switches it on; the runtime shim does not need it"),
    "SNAP_CONFINED": (WARNING, "install docker from packages"),
    "BUILDKIT_RUNTIME": (NOTE, "use the engine's own CDI for `RUN` lines"),
    "RESTART_NEEDED": (WARNING, "restart the engine; containers that run are not affected"),
    "SELINUX_DEVICES": (WARNING, "setsebool -P container_use_devices on"),
    "CONFIG_FLAG": (ERROR, "give it in one of the two places only"),
    "CONTAINERS_RUNNING": (ERROR, "let these containers end first; `shim runtime in-use` lists them"),
    "RUNTIME_REPLACED": (WARNING, "choose another name with --name; `shim runtime remove` restores what was there"),
    "ENGINE_ABSENT": (WARNING, "install the engine, or take the runtime out of the file: `shim runtime remove`"),
    "CONFIG_BACKUP": (ERROR, "check owner, mode and free space of /var/lib/shim"),
    "MANIFEST_INVALID": (ERROR, "mend the manifest; `shim runtime class` writes one"),
    "CLASS_ELSEWHERE": (NOTE, "check the RuntimeClass as well: `shim runtime verify --manifest`"),
    "POD_ANNOTATION": (WARNING, "let a device plugin ask, by a resource in the container's limits"),
    "DISCOVERY_WISH": (ERROR, "`shim cdi generate --help` lists what can be asked for"),
    "DISCOVERY_NAME": (ERROR, "choose other names with --device-name-strategy, or one of the devices with --device"),
    "DRIVER_MISMATCH": (
        ERROR,
        "after an upgrade of the driver restart the machine, or unload its modules (rmmod) and load them again",
    ),
    "DISCOVERY_INCOMPLETE": (ERROR, "load the driver's modules and install its packages, then generate again"),
    "DISCOVERY_PART": (WARNING, "install it if containers need it, then generate again"),
    "DISCOVERY_DEVICE": (ERROR, "mend the device or its driver, then generate again; the other devices are written"),
    "LABELS_INCOMPLETE": (ERROR, "mend the driver or the device; `shim doctor` looks at the whole chain"),
    "LABELS_PART": (WARNING, "select nodes by another label"),
    "LABELS_TAKEN": (
        WARNING,
        "take the other discovery off this node, and remove its file; --force writes the labels all the same",
    ),
    "LABELS_WRITE": (ERROR, "run it as root; check free space of the directory"),
    "VENDOR_CONFIG": (ERROR, "correct the file"),
    "DEVICE_FILE": (ERROR, "move away what is there, and run it as root"),
    "REFRESH_UNITS": (WARNING, "enable it by hand: `systemctl enable --now NAME`"),
    "GRANT_MISSING": (ERROR, "`shim grant add SUBJECT --device KIND=NAME`; `shim grant list` shows what is granted"),
    "GRANT_HELD": (ERROR, "stop the container that has the device, or grant it shared: `shim grant add … --shared`"),
    "GRANT_EXCLUSIVE": (ERROR, "start the container by shim as its runtime (`podman --runtime shim`)"),
    "GRANT_SUBJECT": (ERROR, "choose a name of letters, digits, '.', '_' and '-', which begins with a letter or digit"),
    "GRANT_CONFLICT": (ERROR, "revoke the grant of the other subject, or choose another device"),
    "GRANT_UNKNOWN": (ERROR, "`shim grant list` shows what is granted"),
    "GRANT_UNSERVED": (WARNING, "`shim cdi list` shows what is served; `shim grant revoke SUBJECT --device KIND=NAME`"),
    "GRANT_TAKEN": (ERROR, "choose another name, or purge the grants of that subject first"),
    "GRANTS_UNREADABLE": (ERROR, "correct /etc/shim/grants.json, or restore it from a backup"),
    "GRANTS_BUSY": (ERROR, "let the other `shim grant` end, then try again"),
    "GRANTS_WRITE": (ERROR, "run it as root; check free space of /etc/shim and /var/log/shim"),
    "GRANTS_AUDIT": (
        ERROR,
        "find out what was changed without shim: compare `shim grant list` with a backup of the log",
    ),
    "RULE_INVALID": (ERROR, "correct the file; docs/rules.md has its keys"),
    "KFD_WITHOUT_RENDER": (WARNING, "`dmesg | grep -e amdgpu -e kfd` shows why the driver serves no GPU for compute"),
    "MODULE_MISSING": (ERROR, "load the driver's modules (modprobe); `dmesg` shows why one does not load"),
    "SPEC_ABSENT": (ERROR, "shim cdi generate"),
    "SPEC_SHADOWED": (NOTE, "remove the file that is not meant"),
    "SPEC_PRIVATE": (WARNING, "chmod 0644 the spec"),
    "SPEC_DIR_HIDDEN": (ERROR, "name a directory that both see in the engine's cdi-spec-dirs and in shim's spec-dirs"),
    "CONTAINER_UNKNOWN": (ERROR, "`docker ps -a`, `podman ps -a`, `ctr c ls` and `crictl ps -a` list them"),
    "CONTAINER_ASKS_NOTHING": (WARNING, "ask by annotation or --device"),
    "CONTAINER_LACKS": (ERROR, "create the container anew, with the runtime shim"),
    "CONTAINER_OUTDATED": (WARNING, "create the container anew"),
    "CONTAINER_FAILED": (WARNING, "`shim help ID` explains the id in that message"),
    "DEVICE_RULE_LOST": (ERROR, "`shim system create-dev-char-symlinks`, then create the container anew"),
    "NODE_DENIED": (ERROR, "`usermod -aG GROUP USER`, and under crun `podman run --group-add keep-groups`"),
    "INDEX_UNUSED": (NOTE, "remove the file: the next create writes it anew"),
    "DEVCHAR_MISSING": (WARNING, "shim system create-dev-char-symlinks"),
    "CGROUPS_OFF": (WARNING, "set no-cgroups = false there, and true in a user's own file alone"),
    "DOCKER_CONTEXT": (NOTE, "docker context use default"),
    "GATE_POLICY": (ERROR, "correct the policy; docs/gate.md has its keys"),
    "GATE_LISTEN": (ERROR, "check owner and mode of the directory, and that no other gate listens there"),
    "GATE_UPSTREAM": (ERROR, "check that the daemon runs, and that --upstream is its socket"),
    "GATE_LOG": (ERROR, "name the file of `shim gate serve --log` with --file"),
    "GATE_PODMAN": (ERROR, "put the gate in front of a Docker daemon"),
    "GATE_ENGINE": (WARNING, "upgrade to Docker 27 or later"),
    "GATE_TCP": (ERROR, "take the address out of hosts in daemon.json and of dockerd's command line"),
    "GATE_SOCKET": (ERROR, "let root alone connect: chown root:root, chmod 0600; with systemd SocketGroup=root"),
    "GATE_RUNTIME": (ERROR, "let the daemon use runc, or shim without sources that images control"),
    "GATE_SPEC_DIRS": (ERROR, "make cdi-spec-dirs of daemon.json and of shim's configuration the same"),
    "GATE_CGROUP": (ERROR, "give the daemon a cgroup driver; a rootless one needs delegation by systemd"),
    "GATE_BINDS": (NOTE, "set bind_roots in the policy to the directories of the subject"),
    "GATE_NODEV": (WARNING, "mount the file system of bind_roots with the option nodev"),
    "GATE_BUILDER": (ERROR, 'set builder = "classic" in the policy, or forbid devices in daemon.json'),
    "GATE_SWARM": (ERROR, "docker swarm leave --force, or give the subject a daemon that is no manager"),
    "GATE_LIVE_RESTORE": (NOTE, "after revoking a grant stop the containers that have the device"),
    "GATE_PRIVILEGE": (ERROR, "start it as root without a seccomp filter that forbids prctl, or as an ordinary user"),
    "NODE_IMAGE": (ERROR, "run it in the image of `make oci-image`; `make install` installs from a source tree"),
    "NODE_HOST_ROOT": (ERROR, "mount the root of the host, and name it with --host-root"),
    "NODE_PLACEMENT": (ERROR, "see the message; --prefix names another directory of the host"),
    "NODE_RESTART": (ERROR, "restart the engine on the host; containers that run are not affected"),
    "NODE_SETUP": (ERROR, "run `shim device setup` on the host, which shows the cause"),
    "NODE_NEEDED": (ERROR, "take the launcher out of these files; `shim runtime in-use` lists them; or --force"),
    "NODE_CONFIG": (ERROR, "correct the file; `shim help NODE_CONFIG` names all keys"),
    "PLUGIN_LIBRARY": (ERROR, "install python3-grpcio and python3-protobuf, or the extra cdi-shim[node]"),
    "PLUGIN_SOCKET": (ERROR, "start it as root on a node whose kubelet runs; --kubelet-dir names another directory"),
    "PLUGIN_RUNNING": (ERROR, "end the other process first; a node needs one device plugin of shim"),
    "PLUGIN_KIND": (WARNING, "give the resource another name in /etc/shim/node.toml"),
    "PLUGIN_FORM": (WARNING, 'set form = "annotation" in /etc/shim/node.toml, or run `shim runtime verify`'),
    "PLUGIN_PRIVILEGE": (WARNING, "start it without a seccomp filter that forbids prctl, or as a service of systemd"),
    "INTERNAL": (ERROR, "this is a defect of shim: please report it with this message"),
}


_LONGEST = 1000  # letters of a text; what it quotes comes from files that anybody may have written


def one_line(text: str, longest: int = _LONGEST) -> str:
    """The text as logs and terminals can hold it: what is not printable escaped, and cut when it is endless."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class Finding:
    """One fact to report: an id of TABLE, a text, a position and a remedy.

    Arguments:
        id: a key of TABLE.
        text: one sentence that names the cause; kept as one printable line of at most 1000 letters.
        remedy: what mends it; the table's remedy when not given.
        path: the file it is about, "" when there is none.
        line: line in that file, counted from 1; 0 when unknown.
        rule: a finer code below the id, for example "wrong-type" below SPEC_INVALID.
    """

    __slots__ = ("id", "level", "line", "path", "remedy", "rule", "text")

    def __init__(self, id: str, text: str, remedy: str = "", *, path: str = "", line: int = 0, rule: str = "") -> None:
        self.id = id
        self.level = TABLE[id][0]  # ERROR, WARNING or NOTE
        self.text = one_line(text)
        self.remedy = remedy or TABLE[id][1]
        self.path = path
        self.line = line
        self.rule = rule

    def as_warning(self) -> Finding:
        """The same as a WARNING, where it does not stop what is done."""
        warning = Finding(self.id, self.text, self.remedy, path=self.path, line=self.line, rule=self.rule)
        warning.level = WARNING
        return warning

    def where(self) -> str:
        """`path:line: `, or less where less is known."""
        if not self.path:
            return ""
        path = one_line(self.path)
        return f"{path}:{self.line}: " if self.line else f"{path}: "

    def __str__(self) -> str:
        return f"{self.where()}{self.text}"

    def to_json(self) -> dict[str, object]:
        """The finding as plain values, members without content left out."""
        members = {"id": self.id, "level": self.level, "rule": self.rule, "path": self.path, "line": self.line}
        plain: dict[str, object] = {name: value for name, value in members.items() if value}
        plain["text"] = self.text
        plain["remedy"] = self.remedy
        return plain


def from_json(value: dict[str, Any]) -> Finding:
    """The finding that to_json gave. Raises KeyError or TypeError when the value is none."""
    if value["id"] not in TABLE:
        raise KeyError(f"there is no finding {value['id']}")
    position = {member: value[member] for member in ("path", "line", "rule") if member in value}
    finding = Finding(value["id"], value["text"], value["remedy"], **position)
    if value.get("level") == WARNING:  # of an ERROR that stopped nothing
        finding.level = WARNING
    return finding


class CdiError(Exception):
    """Something was refused. Carries at least one finding; its text is that of the findings, joined by "; ".

    Arguments:
        findings: in the order in which they were found.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = list(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings))


def internal(error: Exception) -> CdiError:
    """What an unexpected exception becomes: one finding, with the line at which it was raised."""
    at = error.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    where = f" at {at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at else ""
    if isinstance(error, (ImportError, SyntaxError)):
        return CdiError([Finding("SHIM_BROKEN", f"its modules cannot be loaded: {error}{where}", "install shim again")])
    return CdiError([Finding("INTERNAL", f"{unexpected(error)}{where}")])
