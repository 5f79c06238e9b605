"""`shim cdi refresh` as a user types it: on a fake machine, with a vendor of tests, and through the launcher."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from unit.discover import acme

import shim.cli
from shim.cli import generate, progress, refresh
from shim.discover import vendors
from shim.host.host import Host

SPEC = "/var/run/cdi/shim-acme.example-gpu.yaml"


@pytest.fixture
def host(trusted_path: Path) -> Host:
    return acme.machine(trusted_path, "0", "1")


@pytest.fixture
def shim_cdi(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run `shim cdi …`; its result."""
    monkeypatch.setattr(vendors, "MODULES", {"acme": acme.MODULE})
    monkeypatch.setattr(generate, "Host", lambda: host)
    monkeypatch.setattr(refresh, "Host", lambda: host)

    def run(*words: str) -> Result:
        return CliRunner().invoke(shim.cli.shim, ["cdi", *words], catch_exceptions=False)

    assert run("generate", "--hook-path", "/usr/local/bin/shim").exit_code == 0
    return run


def without_driver(top: Path) -> None:
    for name in ("0", "1"):
        (top / "dev/acme" / name).unlink()
    waits = Path(f"{top}{acme.WAITS}")
    waits.write_text("the module acme")


def test_a_fresh_spec_is_reported_as_such(shim_cdi: Any) -> None:
    done = shim_cdi("refresh")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{SPEC}: fresh\n", "")


def test_a_stale_spec_is_written(shim_cdi: Any, trusted_path: Path) -> None:
    acme.node(trusted_path, "acme/2", 3)
    done = shim_cdi("refresh", "--dry-run")
    assert done.stdout.startswith(f"{SPEC}: would be written\n--- {SPEC}\n+++ {SPEC}\n")
    assert shim_cdi("refresh").stdout == f"{SPEC}: written\n"
    assert "acme/2" in Path(f"{trusted_path}{SPEC}").read_text()


def test_without_the_driver_the_status_is_0_unless_it_is_required(shim_cdi: Any, trusted_path: Path) -> None:
    without_driver(trusted_path)
    done = shim_cdi("refresh")
    assert (done.exit_code, done.stdout) == (0, f"{SPEC}: waiting for the driver (the module acme)\n")
    done = shim_cdi("refresh", "--require", "-o", "json")
    assert done.exit_code == 3
    assert json.loads(done.stdout) == {
        "state": "waiting for the driver",
        "specs": [
            {
                "path": SPEC,
                "vendor": "acme",
                "kind": "acme.example/gpu",
                "state": "waiting for the driver",
                "waitsFor": "the module acme",
            }
        ],
        "findings": [],
    }


def test_what_is_not_followed_is_an_error_and_can_be_allowed(shim_cdi: Any, trusted_path: Path) -> None:
    (trusted_path / "dev/acmectl").unlink()
    done = shim_cdi("refresh")
    assert (done.exit_code, done.stdout) == (1, f"{SPEC}: refused\n")
    assert done.stderr.startswith(f"ERROR SPEC_SHRINKS: {SPEC}: it would lose /dev/acmectl\n")
    assert shim_cdi("refresh", "--allow-shrink").exit_code == 0


def test_without_a_spec_of_ours_it_says_how_to_get_one(launcher: Path) -> None:
    done = subprocess.run([launcher, "cdi", "refresh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "shim wrote no spec here: `shim cdi generate` does\n")


@pytest.mark.parametrize("option", ["--dry-run", "--require"])
def test_watching_goes_on_for_ever(launcher: Path, option: str) -> None:
    done = subprocess.run([launcher, "cdi", "refresh", "--watch", option], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--watch goes on for ever" in done.stderr


class EndOfTestError(Exception):
    """Ends a watch."""


@pytest.mark.usefixtures("shim_cdi")
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_watching_reports_each_change(trusted_path: Path, form: str) -> None:
    steps: Iterator[Callable[[], object]] = iter(
        [lambda: acme.node(trusted_path, "acme/2", 3), lambda: without_driver(trusted_path), lambda: None]
    )

    class Watched:
        def __init__(self, _: Host) -> None:
            self.waits: list[float | None] = []

        def forgive(self, paths: Any) -> None:
            assert list(paths) == [SPEC]

        def wait(self, longest: float | None) -> None:
            waits.append(longest)
            step = next(steps, None)
            if step is None:
                raise EndOfTestError
            step()

    waits: list[float | None] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(refresh, "Watch", Watched)
        runner = CliRunner()
        done = runner.invoke(shim.cli.shim, ["cdi", "refresh", "--watch", "-o", form])
    assert isinstance(done.exception, EndOfTestError)
    assert waits == [None, None, 30.0, 30.0]  # what waits is tried again, and reported once
    if form == "json":
        assert [json.loads(line)["state"] for line in done.stdout.splitlines()] == [
            "fresh",
            "written",
            "waiting for the driver",
        ]
    elif form == "yaml":
        assert done.stdout.count("---\n") == 3
        assert "state: written\n" in done.stdout
    else:
        assert done.stdout == f"{SPEC}: written\n{SPEC}: waiting for the driver (the module acme)\n"


def test_the_watching_process_ends_at_a_signal(launcher: Path) -> None:
    process = subprocess.Popen([launcher, "cdi", "refresh", "--watch", "-o", "json"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert json.loads(process.stdout.readline()) == {"state": "nothing generated", "specs": [], "findings": []}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    main, terminal = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(terminal, "w") as stream, monkeypatch.context() as patched:
        patched.setattr("sys.stderr", stream)
        with progress.shown() as show:
            show("looking for devices of acme")
        stream.flush()
        expected = "\r\x1b[Klooking for devices of acme…\r\x1b[K".encode()
        printed = b""
        while len(printed) < len(expected):  # the kernel passes it on in parts
            printed += os.read(main, 1000)
        assert printed == expected
    os.close(main)


def test_no_progress_is_shown_in_a_pipe(shim_cdi: Any) -> None:
    assert shim_cdi("refresh").stderr == ""
    assert shim_cdi("generate", "--hook-path", "/usr/local/bin/shim").stderr == ""


def test_a_refresh_beside_another_writer_waits_for_it(shim_cdi: Any, host: Host) -> None:
    from shim.discover import lock

    began = time.monotonic()
    release = threading.Event()

    def hold() -> None:
        with lock.held(host):
            held.set()
            release.wait(10)

    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    threading.Timer(0.3, release.set).start()
    assert shim_cdi("refresh").exit_code == 0
    assert time.monotonic() - began >= 0.3
    thread.join()
