"""`shim gate`: serves the gate in front of a Docker API, and checks what leads around it, and shows what it decided."""

from __future__ import annotations

import grp
import sys
from pathlib import Path

import click

from shim.base.findings import ERROR, CdiError, Finding
from shim.base.paths import reason
from shim.cli import completion
from shim.cli.cdi import open_dirs
from shim.cli.output import format_option, show_document, show_findings, show_table
from shim.config.settings import OFF
from shim.engines import sources
from shim.gate import decisions, grants, policy_file
from shim.gate import serve as serving
from shim.gate import verify as checks
from shim.host.host import Host

_MOST_NODES = 500
_MOST_NAMES = 4
DOCKER = "/var/run/docker.sock"

_subject = click.option(
    "--subject", required=True, metavar="NAME", help="To whom devices are granted: a repository, a user, a team."
)
_upstream = click.option(
    "--upstream", default=DOCKER, metavar="SOCKET", shell_complete=completion.files, help="The daemon's socket."
)
_policy = click.option(
    "--policy", default="", metavar="FILE", help=f"Policy; default: {policy_file.DIRECTORY}/NAME.toml."
)
_grants = click.option(
    "--grants", "grants_path", default=grants.FILE, metavar="FILE", help="The grants of all subjects."
)
_pid_file = click.option(
    "--pid-file", default="/run/docker.pid", metavar="FILE", help="Of the daemon, where systemd listens for it."
)


@click.group()
def gate() -> None:
    """A gate in front of a Docker API: containers get the devices that are granted to a subject, and no others.

    \b
    Example:
      shim gate serve --subject repo-a --listen /run/shim-gate/repo-a.sock
    """


@gate.command()
@_subject
@click.option("--listen", default="", metavar="SOCKET", help="Where clients connect; default: the socket of systemd.")
@_upstream
@_policy
@_grants
@click.option("--metrics", default="", metavar="SOCKET", help="Serve counters there, in the format of Prometheus.")
@click.option("--group", default="", metavar="GROUP", help="Owns the sockets, which have mode 0660.")
@click.option("--log", default="", metavar="FILE", help="Append decisions to FILE; default: standard output.")
@_pid_file
def serve(
    subject: str,
    listen: str,
    upstream: str,
    policy: str,
    grants_path: str,
    metrics: str,
    group: str,
    log: str,
    pid_file: str,
) -> None:
    """Serve the gate of a subject until SIGTERM.

    Clients use its socket as DOCKER_HOST. Each request is judged, and what passes is encoded anew for the daemon;
    docs/gate.md has what is refused, and why. A line of JSON is written for each refusal and each device given.
    Grants are read again when their file changes, the policy at the start.

    \b
    Examples:
      shim gate serve --subject repo-a --listen /run/shim-gate/repo-a.sock --group repo-a
      DOCKER_HOST=unix:///run/shim-gate/repo-a.sock docker run --rm --device nvidia.com/gpu=0 ubuntu nvidia-smi
    """
    policy_path = _policy_path(policy, subject)
    policy_file.read(policy_path, subject)  # reported here, with colours and the exit status of commands
    settings = serving.Settings(
        subject=subject,
        upstream=_absolute(upstream),
        listen=_absolute(listen),
        metrics=_absolute(metrics),
        group=_group(group),
        policy=policy_path,
        grants=_absolute(grants_path),
        log=_absolute(log),
        pid_file=pid_file,
        node_names=_node_names(),
    )
    try:
        serving.become(settings)
    except OSError as error:
        text = f"Python cannot be executed: {reason(error)}"
        raise CdiError([Finding("GATE_LISTEN", text, "install shim again")]) from None


@gate.command()
@_subject
@_upstream
@_policy
@_grants
@_pid_file
@format_option
def verify(subject: str, upstream: str, policy: str, grants_path: str, pid_file: str, form: str) -> None:
    """Check what leads around a gate: the daemon's sockets, its runtimes, its builder, the file systems of binds.

    The exit status is 1 where a finding is an error.

    \b
    Examples:
      shim gate verify --subject repo-a
      shim gate verify --subject repo-a -o json | jq -r '.findings[].id'
    """
    rules = policy_file.read(_policy_path(policy, subject), subject)
    settings = sources.settings_or_defaults(Host())
    findings = checks.grants(_absolute(grants_path))
    try:
        deployment = checks.look(
            rules,
            _absolute(upstream),
            pid_file,
            tuple(settings.spec_dirs),
            open_sources=settings.environment != OFF or settings.mounts != OFF,
            automatic=checks.automatic(_spec_paths()),
        )
        findings += checks.check(deployment)
    except CdiError as error:
        findings += error.findings
    if form != "table":
        show_document({"subject": subject, "findings": [finding.to_json() for finding in findings]}, form)
    else:
        click.echo(f"{subject}: {len(findings)} findings" if findings else f"{subject}: nothing leads around the gate")
    show_findings(findings)
    sys.exit(any(finding.level == ERROR for finding in findings))


@gate.command("log")
@_subject
@click.option("--file", "path", default="", metavar="FILE", help="Of `serve --log`; default: systemd's journal.")
@click.option("-n", "--lines", default=50, show_default=True, type=click.IntRange(1), help="The last decisions.")
@format_option
def show_log(subject: str, path: str, lines: int, form: str) -> None:
    """Show what a gate decided: each refusal, and each device that it let pass.

    \b
    Examples:
      shim gate log --subject repo-a
      shim gate log --subject repo-a -o json | jq -r '.decisions[] | select(.decision == "deny") | .message'
    """
    policy_file.check_subject(subject)
    every = decisions.of_file(_absolute(path)) if path else decisions.of_journal(subject)
    entries = [entry for entry in every if entry.get("subject") == subject][-lines:]
    if form != "table":
        show_document({"decisions": entries}, form)
        return
    rows = [
        (
            str(entry["time"]),
            str(entry["decision"]),
            str(entry["reason"]),
            f"{entry.get('uid', '')}",
            f"{entry.get('method', '')} {entry.get('target', '')}",
            ", ".join(map(str, entry.get("devices") or ())),
        )
        for entry in entries
    ]
    show_table(("TIME", "DECISION", "REASON", "UID", "REQUEST", "DEVICES"), rows)


def _spec_paths() -> list[str]:
    """The spec files that are served. Raises CdiError: of the configuration."""
    served = open_dirs(())
    found = (served.get(device) for device in served.devices())
    return list(dict.fromkeys(entry[0].path for entry in found if entry is not None))


def _policy_path(path: str, subject: str) -> str:
    return _absolute(path) or f"{policy_file.DIRECTORY}/{policy_file.check_subject(subject)}.toml"


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def _group(name: str) -> int:
    if not name:
        return -1
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise click.UsageError(f"there is no group {name}") from None


def _node_names() -> dict[str, tuple[str, ...]]:
    """Device node -> the CDI names that give it, by the specs that are served now."""
    names: dict[str, tuple[str, ...]] = {}
    try:
        served = open_dirs(())
    except CdiError:
        return names  # they are only for messages
    for device in served.devices():
        spec, name = served.get(device) or (None, "")
        for node in (spec.devices[name] if spec else {}).get("deviceNodes") or ():
            path = node.get("hostPath") or node["path"]
            if len(names) < _MOST_NODES or path in names:
                names[path] = (*names.get(path, ()), device)[:_MOST_NAMES]
    return names
