"""`shim cdi …` as a user types it: through the installed launcher."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

GPU = """\
cdiVersion: "0.6.0"
kind: acme.example/gpu
devices:
- name: "0"
  containerEdits: {env: [GPU=0]}
- name: "1"
  containerEdits: {env: [GPU=1]}
"""
NIC = GPU.replace("acme.example/gpu", "other.example/nic").replace("GPU", "NIC")
BROKEN = 'cdiVersion: "0.6.0"\nkind: acme.example/fpga\ndevices:\n- nam: x\n'


@pytest.fixture
def shim(launcher: Path, trusted_path: Path) -> Any:
    """Run a command; its result. The configuration names one directory, trusted_path/cdi."""
    specs = trusted_path / "cdi"
    specs.mkdir()
    settings = trusted_path / "config.toml"
    settings.write_text(f'[cdi]\nspec-dirs = ["{specs}"]\n')

    def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHIM_CONFIG": str(settings), "COLUMNS": "80"}
        return subprocess.run(
            [launcher, *words], input=stdin, capture_output=True, text=True, env=environment, check=False
        )

    return run


def _write(trusted_path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (trusted_path / "cdi" / f"{name}.yaml").write_text(text)
    return trusted_path / "cdi"


def test_list_shows_devices_and_where_they_come_from(shim: Any, trusted_path: Path) -> None:
    specs = _write(trusted_path, gpu=GPU, nic=NIC)
    done = shim("cdi", "list")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows == [
        ["DEVICE", "SPEC"],
        ["acme.example/gpu=0", f"{specs}/gpu.yaml"],
        ["acme.example/gpu=1", f"{specs}/gpu.yaml"],
        ["other.example/nic=0", f"{specs}/nic.yaml"],
        ["other.example/nic=1", f"{specs}/nic.yaml"],
    ]


def test_a_narrow_terminal_cuts_no_name(launcher: Path, trusted_path: Path) -> None:
    """On 20 columns a table was made to fit: names ended in "…", and whole columns were gone."""
    (trusted_path / "gpu.yaml").write_text(GPU)
    command = f"stty cols 20 && {launcher} cdi list -v --spec-dir {trusted_path}/gpu.yaml"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    for word in ("acme.example/gpu=0", "served", f"{trusted_path}/gpu.yaml"):
        assert word in done.stdout


@pytest.mark.parametrize("words", [("cdi", "list", "-v"), ("version",), ("help", "cdi"), ("cdi", "list", "-o", "json")])
def test_output_that_cannot_be_written_is_told_in_one_line(launcher: Path, words: tuple[str, ...]) -> None:
    """On a full disk there was a traceback, and exit status 120."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([launcher, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: the output cannot be written: the file system is full\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["validate {}/gpu.yaml", "list --spec-dir {}", "diff {}/gpu.yaml {}/gpu.yaml"])
def test_a_closed_standard_stream_is_as_good_as_an_open_one(
    launcher: Path, trusted_path: Path, closed: str, words: str
) -> None:
    """With stderr closed every command ended with exit status 1, whatever it had found."""
    (trusted_path / "gpu.yaml").write_text(GPU)
    command = f"{launcher} cdi {words.replace('{}', str(trusted_path))} {closed}"
    assert subprocess.run(["sh", "-c", command], capture_output=True, check=False).returncode == 0


def test_list_names_refused_files_and_serves_their_neighbours(shim: Any, trusted_path: Path) -> None:
    _write(trusted_path, gpu=GPU, broken=BROKEN)
    done = shim("cdi", "list")
    assert done.returncode == 1
    assert "acme.example/gpu=0" in done.stdout
    assert "broken.yaml:4" in done.stderr
    assert "nam" in done.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_list_has_forms_for_programs(shim: Any, trusted_path: Path, form: str) -> None:
    specs = _write(trusted_path, gpu=GPU)
    found = yaml.safe_load(shim("cdi", "list", "-o", form).stdout)
    assert found["devices"][0] == {"name": "acme.example/gpu=0", "spec": f"{specs}/gpu.yaml"}
    assert found["directories"] == [{"path": str(specs), "state": "ok"}]
    assert found["findings"] == []


def test_list_verbose_shows_shadowed_and_conflicting_devices(shim: Any, trusted_path: Path) -> None:
    specs = _write(trusted_path, a=GPU, b=NIC, c=NIC)
    high = trusted_path / "high"
    high.mkdir()
    (high / "gpu.yaml").write_text(GPU)
    done = shim("cdi", "list", "-v", "--spec-dir", specs, "--spec-dir", high)
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    states = {(name, " ".join(rest.split())) for name, rest in rows}
    assert ("acme.example/gpu=0", f"served {high}/gpu.yaml") in states
    assert ("acme.example/gpu=0", f"shadowed by {high}/gpu.yaml {specs}/a.yaml") in states
    assert ("other.example/nic=0", f"conflict {specs}/b.yaml, {specs}/c.yaml") in states
    assert (str(high), "ok") in states
    assert done.returncode == 1
    assert "SPEC_CONFLICT" in done.stderr


def test_a_single_file_can_stand_in_for_a_directory(shim: Any, trusted_path: Path) -> None:
    path = trusted_path / "one.yaml"
    path.write_text(NIC)
    assert "other.example/nic=1" in shim("cdi", "list", "--spec-dir", path).stdout


def test_validate_is_quiet_about_good_files_and_exact_about_bad_ones(shim: Any, trusted_path: Path) -> None:
    specs = _write(trusted_path, gpu=GPU, broken=BROKEN)
    good = shim("cdi", "validate", specs / "gpu.yaml")
    assert (good.returncode, good.stdout) == (0, f"{specs}/gpu.yaml: valid\n")
    bad = shim("cdi", "validate", specs / "broken.yaml")
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert f"{specs}/broken.yaml:4: " in bad.stderr


def test_validate_reports_every_fault_at_once(shim: Any) -> None:
    text = 'cdiVersion: "0.6.0"\nkind: acme/gpu\ndevices:\n- name: "-"\n  containerEdits: {env: [X]}\n- name: ok\n'
    found = json.loads(shim("cdi", "validate", "-", "-o", "json", stdin=text).stdout)["-"]
    assert [one["line"] for one in found] == [4, 5, 6]
    assert {one["id"] for one in found} == {"SPEC_INVALID"}
    assert all(one["level"] == "ERROR" and one["remedy"] for one in found)


def test_b1_validate_warns_of_a_mount_that_is_no_bind_mount_with_its_line(shim: Any, trusted_path: Path) -> None:
    """Such a spec was called valid, and runc failed on it with "no such device"."""
    text = """cdiVersion: "0.6.0"
kind: acme.example/gpu
containerEdits:
  mounts:
  - {hostPath: /usr, containerPath: /a, options: [ro, bind]}
  - {hostPath: /usr, containerPath: /b, options: [ro]}
devices:
- name: "0"
  containerEdits:
    mounts:
    - {hostPath: /usr, containerPath: /c, type: bind}
    - {hostPath: tmpfs, containerPath: /d, type: tmpfs}
"""
    specs = _write(trusted_path, gpu=text)
    for path in (specs / "gpu.yaml", specs):
        done = shim("cdi", "validate", path, "-o", "json")
        assert done.returncode == 0
        found = json.loads(done.stdout)[str(specs / "gpu.yaml")]
        assert [(one["id"], one["level"], one["line"]) for one in found] == [
            ("MOUNT_NOT_BOUND", "WARNING", 6),
            ("MOUNT_NOT_BOUND", "WARNING", 11),
        ]


def test_b22_validate_warns_of_a_class_of_one_letter(shim: Any) -> None:
    """It is valid; but the CDI library of containerd 2.3.4 panics on it, so that containerd does not start."""
    devices = '[{"name": "0", "containerEdits": {"env": ["A=b"]}}]'
    text = f'{{"cdiVersion": "0.6.0", "kind": "gid.com/KLASS", "devices": {devices}}}'
    [found] = json.loads(shim("cdi", "validate", "-", "-o", "json", stdin=text.replace("KLASS", "x")).stdout)["-"]
    assert (found["id"], found["level"], found["line"]) == ("KIND_SHORT", "WARNING", 1)
    assert shim("cdi", "validate", "-", stdin=text.replace("KLASS", "xy")).stderr == ""


def test_validate_reads_standard_input(shim: Any) -> None:
    assert shim("cdi", "validate", "-", stdin=GPU).returncode == 0
    assert "SPEC_SYNTAX" in shim("cdi", "validate", "-", stdin="").stderr


def test_validate_of_a_directory_sees_conflicts_and_files_that_nobody_reads(shim: Any, trusted_path: Path) -> None:
    specs = _write(trusted_path, a=GPU, b=GPU)
    (specs / "c.yml").write_text(GPU)
    done = shim("cdi", "validate", specs)
    assert done.returncode == 1
    assert "SPEC_CONFLICT" in done.stderr
    assert "SPEC_NAME" in done.stderr


def test_d11_validate_said_to_run_validate_and_to_look_at_the_mode_of_no_file(shim: Any, trusted_path: Path) -> None:
    """Both remedies were those of a create: neither helps where the command runs already, or the file is missing."""
    done = shim("cdi", "validate", "-", stdin=BROKEN)
    assert "ERROR SPEC_INVALID" in done.stderr
    assert "cdi validate" not in done.stderr
    done = shim("cdi", "validate", trusted_path / "none.yaml")
    assert "name a file that exists" in done.stderr
    assert "owner" not in done.stderr


def test_validate_keeps_the_remedy_of_a_fault_that_has_one_of_its_own(shim: Any) -> None:
    """Every fault was to be mended by "mend the file", also those for which more is known than that."""
    faulty = GPU.replace("[GPU=0]", "[GPU]")
    assert "write NAME=VALUE" in shim("cdi", "validate", "-", stdin=faulty).stderr


def test_d3_validate_called_a_file_valid_that_create_refuses_by_trust(shim: Any, trusted_path: Path) -> None:
    """Everybody can write it, so create refuses it, and validate was content with its text."""
    specs = _write(trusted_path, gpu=GPU)
    assert shim("cdi", "validate", specs).returncode == 0
    (specs / "gpu.yaml").chmod(0o666)
    for path in (specs, specs / "gpu.yaml"):
        done = shim("cdi", "validate", path)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"ERROR SPEC_UNTRUSTED: {specs}/gpu.yaml: it is not trusted: " in done.stderr
    draft = trusted_path / "draft.yaml"
    draft.write_text(GPU)
    draft.chmod(0o666)
    assert shim("cdi", "validate", draft).returncode == 0, "a draft counts nowhere yet"


def test_d3_a_name_that_ends_in_yml_was_passed_over_without_a_word(shim: Any, trusted_path: Path) -> None:
    """`list` did not mention the file, and `validate` called it valid."""
    specs = _write(trusted_path, gpu=GPU)
    (specs / "foo.yml").write_text(NIC)
    done = shim("cdi", "list")
    assert (done.returncode, "other.example" in done.stdout) == (0, False)
    assert f"WARNING SPEC_NAME: {specs}/foo.yml: " in done.stderr
    done = shim("cdi", "validate", specs / "foo.yml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "WARNING SPEC_NAME" in done.stderr


@pytest.mark.parametrize("name", ["foo.YAML", "foo.JSON", "foo.Yml"])
def test_d3_an_ending_in_capital_letters_is_none(shim: Any, trusted_path: Path, name: str) -> None:
    """No reader takes such a file, and neither command had a word on it."""
    specs = _write(trusted_path, gpu=GPU)
    (specs / name).write_text(NIC)
    for command in (("cdi", "list"), ("cdi", "validate", specs), ("cdi", "validate", specs / name)):
        assert f"WARNING SPEC_NAME: {specs}/{name}: " in shim(*command).stderr


def test_d9_validate_of_a_directory_without_a_spec_tells_it(shim: Any, tmp_path: Path) -> None:
    """It ended without a word, as if all were well."""
    done = shim("cdi", "validate", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert f"{tmp_path}: no file in it is named like a spec" in done.stderr


def test_b23_devices_that_the_same_files_define_are_one_finding(shim: Any, trusted_path: Path) -> None:
    """Two generations of a spec for 8 GPUs gave 34 findings, two for each of 17 names."""
    devices = [{"name": str(name), "containerEdits": {"env": ["A=b"]}} for name in range(17)]
    text = json.dumps({"cdiVersion": "0.6.0", "kind": "v.example/gpu", "devices": devices})
    specs = _write(trusted_path, a=text, b=text)
    a, b = specs / "a.yaml", specs / "b.yaml"
    names = "devices v.example/gpu=0, v.example/gpu=1, v.example/gpu=2 and 14 more are also defined by"
    found = json.loads(shim("cdi", "validate", specs, "-o", "json").stdout)
    told = {path: [one["text"] for one in findings] for path, findings in found.items()}
    assert told == {
        str(path): [f"{names} {other}, so none of these files serves them"] for path, other in ((a, b), (b, a))
    }
    listed = json.loads(shim("cdi", "list", "--spec-dir", specs, "-o", "json").stdout)
    assert [one["text"] for one in listed["findings"]] == told[str(a)]
    assert len(listed["conflicts"]) == 17


def test_validate_says_that_a_file_is_missing(shim: Any, trusted_path: Path) -> None:
    done = shim("cdi", "validate", trusted_path / "none.yaml")
    assert done.returncode == 1
    assert "SPEC_UNREADABLE" in done.stderr


@pytest.fixture
def config(trusted_path: Path) -> Path:
    path = trusted_path / "bundle" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"ociVersion": "1.0.2", "x-unknown": {"kept": 1}, "process": {"env": ["PATH=/bin"]}}))
    return path


def test_inject_prints_a_plain_config(shim: Any, trusted_path: Path, config: Path) -> None:
    _write(trusted_path, gpu=GPU, nic=NIC)
    before = config.read_text()
    done = shim("cdi", "inject", config, "acme.example/gpu=1", "other.example/nic=0")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "ociVersion": "1.0.2",
        "x-unknown": {"kept": 1},
        "process": {"env": ["PATH=/bin", "GPU=1", "NIC=0"]},
    }
    assert config.read_text() == before


def test_inject_takes_a_bundle_a_pattern_and_standard_input(shim: Any, trusted_path: Path, config: Path) -> None:
    _write(trusted_path, gpu=GPU)
    for source, stdin in ((str(config.parent), ""), ("-", config.read_text())):
        done = shim("cdi", "inject", source, "acme.example/gpu=*", stdin=stdin)
        assert json.loads(done.stdout)["process"]["env"] == ["PATH=/bin", "GPU=1"]  # the later device wins


def test_inject_writes_in_place_with_mode_kept(shim: Any, trusted_path: Path, config: Path) -> None:
    _write(trusted_path, gpu=GPU)
    config.chmod(0o600)
    assert shim("cdi", "inject", "--in-place", config, "acme.example/gpu=0").returncode == 0
    assert "GPU=0" in config.read_text()
    assert config.stat().st_mode & 0o7777 == 0o600
    assert os.listdir(config.parent) == ["config.json"]


def test_inject_writes_to_another_file(shim: Any, trusted_path: Path, config: Path) -> None:
    _write(trusted_path, gpu=GPU)
    target = trusted_path / "out.json"
    assert shim("cdi", "inject", "--to", target, config, "acme.example/gpu=0").stdout == ""
    assert json.loads(target.read_text())["process"]["env"][-1] == "GPU=0"


def test_inject_replaces_no_device(shim: Any, trusted_path: Path, config: Path) -> None:
    """`--to /dev/null` put a regular file in the place of the device, for the whole machine."""
    _write(trusted_path, gpu=GPU)
    node = trusted_path / "null"
    os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    for target in (node, "/dev/stdout"):
        done = shim("cdi", "inject", "--to", target, config, "acme.example/gpu=0")
        assert (done.returncode, done.stdout) == (1, "")
        assert "no regular file" in done.stderr
    assert stat.S_ISCHR(node.stat().st_mode)
    assert sorted(os.listdir(trusted_path)) == ["bundle", "cdi", "config.toml", "null"]


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a":NaN}', '{"a":1,"a":1}', "\ufeff{}", "[" * 100_000, "{} {}"])
def test_inject_takes_what_create_takes(shim: Any, trusted_path: Path, text: str) -> None:
    """Deep nesting was a traceback; NaN and a name that stands twice were passed on."""
    _write(trusted_path, gpu=GPU)
    done = shim("cdi", "inject", "-", "acme.example/gpu=0", stdin=text)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ERROR CONFIG_JSON: -: ")


def test_inject_shows_a_diff_and_writes_nothing_on_a_dry_run(shim: Any, trusted_path: Path, config: Path) -> None:
    _write(trusted_path, gpu=GPU)
    before = config.read_text()
    done = shim("cdi", "inject", "--in-place", "--dry-run", config, "acme.example/gpu=0")
    assert '+      "GPU=0"' in done.stdout
    assert config.read_text() == before


@pytest.mark.parametrize("name", ["acme.example/gpu=7", "none.example/*=*"])
def test_inject_of_a_name_that_nobody_serves_changes_nothing(
    shim: Any, trusted_path: Path, config: Path, name: str
) -> None:
    _write(trusted_path, gpu=GPU)
    before = config.read_text()
    done = shim("cdi", "inject", "--in-place", config, "acme.example/gpu=0", name)
    assert done.returncode == 1
    assert done.stdout == ""
    assert name in done.stderr
    assert config.read_text() == before


USAGE = {
    "an unknown command": ("cdi", "lisst"),
    "an unknown option": ("cdi", "list", "--colour"),
    "a missing argument": ("cdi", "inject", "config.json"),
    "options that exclude each other": ("cdi", "inject", "--in-place", "--to", "x", "config.json", "a.b/c=d"),
}


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE.keys())
def test_wrong_usage_is_exit_status_2(shim: Any, words: tuple[str, ...]) -> None:
    done = shim(*words)
    assert done.returncode == 2
    assert "Usage: shim" in done.stderr


NOUNS = {
    "cdi": ("list", "show", "diff", "validate", "inject"),
    "config": ("show", "default"),
    "explain": (),
    "version": (),
}
HELPS = [(), *((noun, *verb) for noun, verbs in NOUNS.items() for verb in ((), *((one,) for one in verbs)))]


@pytest.mark.parametrize("words", HELPS)
def test_every_help_has_an_example_and_both_ways_to_it_agree(shim: Any, words: tuple[str, ...]) -> None:
    by_option = shim(*words, "--help")
    by_command = shim("help", *words)
    assert by_option.returncode == by_command.returncode == 0
    assert by_option.stdout == by_command.stdout
    assert "Example" in by_option.stdout


def test_d5_help_knew_nothing_of_the_verbs_that_take_a_device(shim: Any) -> None:
    """`shim help run` said "No such command 'run'. Did you mean 'runtime'?"."""
    for verb in ("run", "create"):
        done = shim("help", verb)
        assert (done.returncode, done.stderr) == (0, "")
        assert "--device KIND=NAME" in done.stdout
    assert "`shim exec --help`" in shim("help", "exec").stdout


def test_d5_a_misspelt_command_is_answered_with_usage(shim: Any) -> None:
    """The low-level runtime answered, whatever it had to say."""
    done = shim("explian", "--bundle", ".")
    assert done.returncode == 2
    assert "No such command 'explian'" in done.stderr


# --- show and diff ---

DRIVER = """\
cdiVersion: "0.6.0"
kind: acme.example/gpu
containerEdits:
  env: [DRIVER=1]
  mounts: [{hostPath: /usr/lib/libx.so.1, containerPath: /usr/lib/libx.so.1, options: [ro, bind]}]
  hooks: [{hookName: createContainer, path: /usr/bin/hook, args: [hook, a, b], timeout: 5}]
devices:
- name: "0"
  containerEdits:
    env: [GPU=0]
    deviceNodes: [{path: /dev/gpu0, hostPath: /dev/real0, type: c, major: 5, minor: 1, permissions: rw, fileMode: 432}]
"""


def test_show_tells_each_edit_with_its_file_those_for_all_devices_first(shim: Any, trusted_path: Path) -> None:
    specs = _write(trusted_path, gpu=DRIVER)
    done = shim("cdi", "show", "acme.example/gpu=0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{specs}/gpu.yaml, for all devices",
        "  variable  DRIVER=1",
        "  mount     /usr/lib/libx.so.1 (ro,bind)",
        "  hook      createContainer /usr/bin/hook a b, at most 5 s",
        f"{specs}/gpu.yaml, acme.example/gpu=0",
        "  variable  GPU=0",
        "  node      /dev/gpu0 from /dev/real0 c 5:1 rw mode 0660",
    ]


def test_d9_list_without_any_spec_was_a_bare_header(shim: Any, trusted_path: Path) -> None:
    """It did not say where it had looked, nor where specs come from."""
    settings = trusted_path / "config.toml"
    settings.write_text(f'[cdi]\nspec-dirs = ["{trusted_path}/cdi", "{trusted_path}/none"]\n')
    done = shim("cdi", "list")
    assert (done.returncode, done.stdout) == (0, "")
    lines = done.stderr.splitlines()
    assert lines[1:3] == [f"  {trusted_path}/cdi: no usable spec", f"  {trusted_path}/none: missing"]
    assert "shim device setup" in lines[3]
    assert "--spec-dir" in lines[3]
    _write(trusted_path, gpu=GPU)
    assert shim("cdi", "list").stderr == ""


LINKS = [f"libvendor-{number}.so.550.54.15::/usr/lib/x86_64-linux-gnu/libvendor-{number}.so.1" for number in range(29)]
GENERATED = {
    "cdiVersion": "0.6.0",
    "kind": "acme.example/gpu",
    "containerEdits": {
        "mounts": [
            {"hostPath": path, "containerPath": path, "options": ["ro", "nosuid", "nodev", "bind"]}
            for path in (f"/usr/lib/x86_64-linux-gnu/libvendor-{number}.so.550.54.15" for number in range(29))
        ],
        "hooks": [
            {
                "hookName": "createContainer",
                "path": "/bin/true",
                "args": ["true", "create-symlinks", *(word for link in LINKS for word in ("--link", link))],
            }
        ],
    },
    "devices": [
        {"name": str(number), "containerEdits": {"deviceNodes": [{"path": f"/dev/gpu{number}"}]}} for number in range(8)
    ],
}


def test_d1_show_padded_each_line_to_the_longest_hook(shim: Any, trusted_path: Path) -> None:
    """A hook with 29 links made each of 38 lines more than 1000 columns wide, once for each of eight devices."""
    specs = _write(trusted_path, gpu=json.dumps(GENERATED))
    done = shim("cdi", "show", "acme.example/gpu=*")  # a pipe counts as a terminal of 80 columns
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        f"{specs}/gpu.yaml, for all devices",
        *(f"{specs}/gpu.yaml, acme.example/gpu={number}" for number in range(8)),
    ]
    assert len([line for line in lines if line.startswith("  mount ")]) == 29, "once for all devices"
    assert "".join(lines).replace(" ", "").count("".join(f"--link{link}" for link in LINKS)) == 1, "none is cut"
    assert not [line for line in lines if line != line.rstrip() or len(line) > 80]


@pytest.mark.parametrize(("columns", "links"), [(80, 1), (200, 2)])
def test_d1_show_folds_to_the_width_of_the_terminal(
    launcher: Path, trusted_path: Path, columns: int, links: int
) -> None:
    """The terminal folded the lines itself, in the middle of names."""
    (trusted_path / "gpu.json").write_text(json.dumps(GENERATED))
    show = f"{launcher} cdi show --spec-dir {trusted_path}/gpu.json acme.example/gpu=0"
    command = f"unset COLUMNS; stty cols {columns} && {show}"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert max(line.count("--link") for line in lines) == links
    assert "".join(lines).replace(" ", "").count("".join(f"--link{link}" for link in LINKS)) == 1


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", ["cdi validate", "cdi list -v --spec-dir"])
def test_findings_about_a_generated_spec_are_folded_to_the_width_of_the_terminal(
    launcher: Path, trusted_path: Path, columns: int, words: str
) -> None:
    """The terminal cut them in the middle of words; in a pipe each is a line."""
    for name in ("gpu", "twin"):
        (trusted_path / f"{name}.json").write_text(json.dumps(GENERATED))
    command = f"unset COLUMNS; stty cols {columns}; {launcher} {words} {trusted_path}"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.stdout.splitlines()]
    assert max(map(len, lines)) <= columns
    folded = " ".join(line.strip() for line in lines)
    whole = (
        f"{trusted_path}/gpu.json: devices acme.example/gpu=0, acme.example/gpu=1, acme.example/gpu=2 and 5 more are"
    )
    assert f"ERROR SPEC_CONFLICT: {whole} also defined by" in folded
    piped = subprocess.run([launcher, *words.split(), trusted_path], capture_output=True, text=True, check=False).stderr
    assert f"ERROR SPEC_CONFLICT: {whole} also defined by" in piped


def test_d1_wide_has_a_whole_line_for_each_edit_without_padding(shim: Any, trusted_path: Path) -> None:
    """What programs such as grep read had the spec behind 1000 blanks, and the end of a long hook was cut."""
    specs = _write(trusted_path, gpu=json.dumps(GENERATED))
    done = shim("cdi", "show", "-o", "wide", "acme.example/gpu=0")
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + 29 + 1 + 1
    assert not [line for line in lines if line != line.rstrip()]
    [hook] = [line for line in lines if " hook " in line]
    assert hook.startswith(f"acme.example/gpu=0  {specs}/gpu.yaml, for all devices")
    assert hook.endswith(f"--link {LINKS[-1]}")


def test_d1_list_takes_kinds_and_prints_names_alone(shim: Any, trusted_path: Path) -> None:
    """There was no way to list one vendor's devices, nor names for a shell loop, but through JSON."""
    _write(trusted_path, gpu=GPU, nic=NIC)
    assert shim("cdi", "list", "-o", "name", "other.example/nic").stdout == "other.example/nic=0\nother.example/nic=1\n"
    assert shim("cdi", "list", "-o", "name", "other.*").stdout == "other.example/nic=0\nother.example/nic=1\n"
    found = json.loads(shim("cdi", "list", "-o", "json", "acme.example/gpu").stdout)
    assert [one["name"] for one in found["devices"]] == ["acme.example/gpu=0", "acme.example/gpu=1"]
    done = shim("cdi", "list", "acme.example/gpus")
    assert done.returncode == 1
    assert "no spec has the kind 'acme.example/gpus'; there are acme.example/gpu" in done.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_show_has_forms_for_programs_and_takes_patterns(shim: Any, trusted_path: Path, form: str) -> None:
    specs = _write(trusted_path, gpu=GPU)
    found = yaml.safe_load(shim("cdi", "show", "-o", form, "acme.example/*").stdout)["devices"]
    assert [one["name"] for one in found] == ["acme.example/gpu=0", "acme.example/gpu=1"]
    assert found[1] == {
        "name": "acme.example/gpu=1",
        "spec": f"{specs}/gpu.yaml",
        "edits": {"env": ["GPU=1"]},
        "specEdits": {},
    }


def test_show_of_an_unknown_device_names_near_ones(shim: Any, trusted_path: Path) -> None:
    _write(trusted_path, gpu=GPU)
    done = shim("cdi", "show", "acme.example/gpu=0", "acme.example/gpu=7")
    assert (done.returncode, done.stdout) == (1, "")
    assert "DEVICE_UNKNOWN" in done.stderr
    assert "acme.example/gpu=1" in done.stderr


SAME: dict[str, str] = {
    "the same text": DRIVER,
    "JSON in place of YAML, keys in another order": json.dumps(dict(reversed(yaml.safe_load(DRIVER).items()))),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_diff_finds_nothing_where_a_container_gets_the_same(shim: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "old.yaml").write_text(DRIVER)
    (tmp_path / "new.spec").write_text(text)  # whatever the file is called
    done = shim("cdi", "diff", tmp_path / "old.yaml", tmp_path / "new.spec")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


DIFFERENT: dict[str, tuple[str, str, list[str]]] = {
    "a variable of a device": (
        "GPU=0",
        "GPU=zero",
        ["changed acme.example/gpu=0", "  - variable GPU=0", "  + variable GPU=zero"],
    ),
    "a number of a node": (
        "minor: 1",
        "minor: 2",
        [
            "changed acme.example/gpu=0",
            "  - node /dev/gpu0 from /dev/real0 c 5:1 rw mode 0660",
            "  + node /dev/gpu0 from /dev/real0 c 5:2 rw mode 0660",
        ],
    ),
    "an edit for all devices": (
        "env: [DRIVER=1]",
        "env: [DRIVER=1, MORE=2]",
        ["changed acme.example/gpu", "  + variable MORE=2"],
    ),
    "the version": ("0.6.0", "0.7.0", ["changed acme.example/gpu", "  - version 0.6.0", "  + version 0.7.0"]),
    "the order of mount options": (
        "[ro, bind]",
        "[bind, ro]",
        [
            "changed acme.example/gpu",
            "  - mount /usr/lib/libx.so.1 (ro,bind)",
            "  + mount /usr/lib/libx.so.1 (bind,ro)",
        ],
    ),
    "another name of the device": (
        'name: "0"',
        'name: "1"',
        [
            "removed acme.example/gpu=0",
            "  - variable GPU=0",
            "  - node /dev/gpu0 from /dev/real0 c 5:1 rw mode 0660",
            "added acme.example/gpu=1",
            "  + variable GPU=0",
            "  + node /dev/gpu0 from /dev/real0 c 5:1 rw mode 0660",
        ],
    ),
}


@pytest.mark.parametrize(("before", "after", "lines"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_diff_shows_devices_and_edits_that_differ(
    shim: Any, tmp_path: Path, before: str, after: str, lines: list[str]
) -> None:
    (tmp_path / "old.yaml").write_text(DRIVER)
    done = shim("cdi", "diff", tmp_path / "old.yaml", "-", stdin=DRIVER.replace(before, after))
    assert (done.returncode, done.stdout.splitlines()) == (1, lines)


def test_d2_diff_showed_two_different_hooks_as_equal(shim: Any, tmp_path: Path) -> None:
    """The text of an edit was cut at 1000 letters: a hook that differs behind them was shown twice alike."""
    text = json.dumps(GENERATED)
    (tmp_path / "old.json").write_text(text)
    done = shim("cdi", "diff", tmp_path / "old.json", "-", stdin=text.replace(LINKS[-1], "other.so::/usr/lib/other.so"))
    removed, added = [line for line in done.stdout.splitlines() if " hook " in line]
    assert len(removed) > 1000
    assert removed.endswith(f"--link {LINKS[-1]}")
    assert added.endswith("--link other.so::/usr/lib/other.so")


def test_diff_says_when_only_the_order_is_another(shim: Any, tmp_path: Path) -> None:
    for name, order in (("a", "[A=1, B=2]"), ("b", "[B=2, A=1]")):
        (tmp_path / name).write_text(GPU.replace("[GPU=0]", order))
    done = shim("cdi", "diff", tmp_path / "a", tmp_path / "b")
    assert (done.returncode, done.stdout) == (1, "changed acme.example/gpu=0\n  ~ env in another order\n")
    [change] = json.loads(shim("cdi", "diff", "-o", "json", tmp_path / "a", tmp_path / "b").stdout)["changes"]
    assert change == {
        "name": "acme.example/gpu=0",
        "state": "changed",
        "removed": {},
        "added": {},
        "reordered": ["env"],
    }


def test_diff_compares_what_directories_serve(shim: Any, trusted_path: Path, tmp_path: Path) -> None:
    old = _write(trusted_path, gpu=GPU)
    new = tmp_path / "new"
    new.mkdir()
    (new / "one.yaml").write_text(GPU.replace("GPU=1", "GPU=one"))
    (new / "two.yaml").write_text(NIC)
    found = json.loads(shim("cdi", "diff", "-o", "json", old, new).stdout)["changes"]
    assert [(one["state"], one["name"]) for one in found] == [
        ("changed", "acme.example/gpu=1"),
        ("added", "other.example/nic"),
        ("added", "other.example/nic=0"),
        ("added", "other.example/nic=1"),
    ]
    assert found[0]["removed"] == {"env": ["GPU=1"]}


def test_diff_is_not_silent_about_what_it_cannot_read(shim: Any, tmp_path: Path, trusted_path: Path) -> None:
    specs = _write(trusted_path, gpu=GPU, broken=BROKEN)
    for pair in ((specs, specs), (specs / "broken.yaml", specs / "gpu.yaml"), (tmp_path / "none", specs)):
        done = shim("cdi", "diff", *pair)
        assert done.returncode == 1
        assert "ERROR SPEC_" in done.stderr


def test_version_says_what_is_installed(shim: Any) -> None:
    import shim as package

    found = json.loads(shim("version", "-o", "json").stdout)
    assert found["version"] == package.__version__
    assert found["cdi"][-1] == "1.1.0"
    assert shim("version").stdout.startswith(f"shim {package.__version__}\n")


def test_a_configuration_that_cannot_be_read_is_named(shim: Any, trusted_path: Path) -> None:
    (trusted_path / "config.toml").write_text("cdi = [")
    done = shim("cdi", "list")
    assert done.returncode == 1
    assert "SETTINGS" in done.stderr
    assert "config.toml" in done.stderr


# Edits that the specification permits -> (line, id, level) of what a create refuses of them, or warns of, on any host
REFUSED: dict[str, tuple[str, list[tuple[int, str, str]]]] = {
    "a relative source of a mount that is no file system": (
        "mounts: [{hostPath: data, containerPath: /a}]",
        [(5, "MOUNT_OPTION", "ERROR")],
    ),
    "a relative source, with the type bind alone": (
        "mounts: [{hostPath: data, containerPath: /a, type: bind, options: [ro]}]",
        [(5, "MOUNT_OPTION", "ERROR")],
    ),
    "propagation to the host": (
        "mounts: [{hostPath: /usr, containerPath: /a, options: [rbind, rshared]}]",
        [(5, "MOUNT_OPTION", "ERROR")],
    ),
    "options joined by commas": (
        'mounts: [{hostPath: /usr, containerPath: /a, options: ["bind,shared", bind]}]',
        [(5, "MOUNT_OPTION", "ERROR")],
    ),
    "a relative target": (
        "mounts: [{hostPath: /usr, containerPath: a/b, options: [bind]}]",
        [(5, "TARGET_FORBIDDEN", "ERROR")],
    ),
    "a target in the kernel's file systems, and one that leads upwards": (
        "mounts: [{hostPath: /usr, containerPath: /proc/x, options: [bind]},\n"
        "    {hostPath: /usr, containerPath: /a/../b, options: [bind]}]",
        [(5, "TARGET_FORBIDDEN", "ERROR"), (6, "TARGET_FORBIDDEN", "ERROR")],
    ),
    "a node at a relative path": ("deviceNodes: [{path: dev/gpu0}]", [(5, "TARGET_FORBIDDEN", "ERROR")]),
    "the name of an interface": (
        "netDevices: [{hostInterfaceName: eth0, name: much-too-long-a-name}]",
        [(5, "NETDEV_NAME", "ERROR")],
    ),
    "a stage that no device needs, twice": (
        "hooks: [{hookName: prestart, path: /bin/true}, {hookName: prestart, path: /bin/sh}]",
        [(5, "HOOK_STAGE", "WARNING")],
    ),
    "a variable that loads code": (
        "hooks: [{hookName: createContainer, path: /bin/true, env: [LD_PRELOAD=x]}]",
        [(5, "HOOK_ENVIRONMENT", "WARNING")],
    ),
    "a hook inside": ("hooks: [{hookName: startContainer, path: /bin/true, env: [LD_PRELOAD=x]}]", []),
    "what is not on this host": (
        "mounts: [{hostPath: /none, containerPath: /a, options: [bind]}]\n"
        "    deviceNodes: [{path: /dev/none}]\n    hooks: [{hookName: createContainer, path: /none}]",
        [],
    ),
    "a file system, and a path of the bundle": (
        "mounts: [{hostPath: tmpfs, containerPath: /a, type: tmpfs},"
        " {hostPath: data, containerPath: /b, options: [bind]}]",
        [],
    ),
}


LAYOUTS = {
    "of a device": 'devices:\n- containerEdits:\n    EDITS\n  name: "0"\n',
    "of the spec": 'devices: [{name: "0", containerEdits: {env: [A=b]}}]\ncontainerEdits:\n    EDITS\n',
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize(("edits", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_b1_validate_called_a_spec_valid_that_every_create_refuses(
    shim: Any, edits: str, expected: list[tuple[int, str, str]], layout: str
) -> None:
    text = 'cdiVersion: "1.1.0"\nkind: acme.example/gpu\n' + layout.replace("EDITS", edits)
    done = shim("cdi", "validate", "-", "-o", "json", stdin=text)
    found = json.loads(done.stdout)["-"]
    assert [(one["line"], one["id"], one["level"]) for one in found] == expected
    assert done.returncode == any(level == "ERROR" for _, _, level in expected)


def test_b1_the_advice_for_a_relative_path_was_rbind(shim: Any) -> None:
    """No create adds it to such a mount, and with it the source would be a path in the bundle."""
    edits = "mounts: [{hostPath: data, containerPath: /a}]"
    text = 'cdiVersion: "1.1.0"\nkind: acme.example/gpu\n' + LAYOUTS["of a device"].replace("EDITS", edits)
    told = shim("cdi", "validate", "-", stdin=text).stderr
    assert "name its file system as the type, such as tmpfs" in told
    assert "MOUNT_NOT_BOUND" not in told
