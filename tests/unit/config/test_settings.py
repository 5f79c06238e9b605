"""The configuration file: optional, trusted or refused, strict about values, lenient about keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from shim.base.findings import CdiError
from shim.config import location, reader
from shim.config.keys import KEYS
from shim.config.settings import Settings
from shim.host.trust import Trust

ALICE = 4242


@pytest.fixture
def file(trusted_path: Path) -> Path:
    return trusted_path / "c.toml"


def _load(file: Path, text: str | bytes) -> Settings:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return location.load(str(file))


def _refused(file: Path) -> CdiError:
    with pytest.raises(CdiError) as caught:
        location.load(str(file))
    return caught.value


def test_without_a_file_everything_has_a_default() -> None:
    found = Settings()
    assert found.path == ""
    assert found.spec_dirs == ("/etc/cdi", "/var/run/cdi")
    assert found.annotation_prefixes == ("cdi.k8s.io/",)
    assert found.default_kind == "nvidia.com/gpu"
    assert (found.environment, found.mounts) == ("off", "off")


def test_a_file_that_the_variable_names_must_exist(file: Path) -> None:
    """A typing error would otherwise switch on what the file switches off."""
    error = _refused(file)
    assert error.findings[0].id == "SETTINGS"
    assert "is missing" in str(error)


def test_a_file_that_the_variable_names_has_an_absolute_path() -> None:
    with pytest.raises(CdiError, match="absolute"):
        location.load("c.toml")


# --- whose file ---


OWNERS: dict[str, tuple[int, int, bool]] = {
    "root's": (0, 0o644, True),
    "root's, for root alone": (0, 0o600, True),
    "somebody's": (ALICE, 0o644, False),
    "root's, writable by everybody": (0, 0o666, False),
}


@pytest.mark.parametrize(("owner", "mode", "counts"), OWNERS.values(), ids=OWNERS.keys())
def test_a_file_counts_only_if_trusted(file: Path, owner: int, mode: int, counts: bool) -> None:
    """What a file of somebody else says must not count, and the defaults may allow what it forbids: it is an error."""
    file.write_text("[cdi]\nannotation-prefixes = []\n")
    os.chown(file, owner, owner)
    file.chmod(mode)
    if counts:
        assert location.load(str(file)).annotation_prefixes == ()
        return
    error = _refused(file)
    assert [finding.id for finding in error.findings] == ["SETTINGS_UNTRUSTED"]
    assert error.findings[0].path == str(file)


def test_a_file_below_a_directory_that_everybody_can_write_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "c.toml").touch()
    assert _refused(tmp_path / "c.toml").findings[0].id == "SETTINGS_UNTRUSTED"


def test_rootless_the_own_file_is_trusted(trusted_path: Path) -> None:
    file = trusted_path / "config.toml"
    file.write_text('[log]\nfile = ""\n')
    os.chown(file, ALICE, ALICE)
    trust = Trust(rootful=False, euid=ALICE, overflow=65534)
    assert location.load(str(file), trust).log_file == ""


# --- what it says ---


def test_what_the_file_says_counts(file: Path) -> None:
    found = _load(
        file,
        """
        [cdi]
        spec-dirs = ["/a", "/b"]
        annotation-prefixes = ["x/"]
        default-kind = "v.example/c"
        [sources]
        environment = "privileged"
        mounts = "any"
        merge = false
        variables = {X_DEVICES = "x.example/gpu"}
        [sources.swarm-variables]
        DOCKER_RESOURCE_X = "x.example/gpu"
        [log]
        file = "/var/log/x"
        """,
    )
    assert found.path == str(file)
    assert (found.spec_dirs, found.annotation_prefixes) == (("/a", "/b"), ("x/",))
    assert found.default_kind == "v.example/c"
    assert (found.environment, found.mounts, found.merge) == ("privileged", "any", False)
    assert (found.variables, found.swarm_variables) == (
        {"X_DEVICES": "x.example/gpu"},
        {"DOCKER_RESOURCE_X": "x.example/gpu"},
    )
    assert found.log_file == "/var/log/x"
    assert found.warnings == []


def test_settings_survive_json(file: Path) -> None:
    found = _load(file, '[cdi]\nspec-dirs = ["/a"]\nspeed = 1\n[sources]\nmounts = "any"\n')
    again = Settings.from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    assert again.spec_dirs == ("/a",)
    assert str(again.warnings[0]) == str(found.warnings[0])
    assert {key.attribute for key in KEYS} | {"path", "warnings"} == set(Settings.__slots__)


@pytest.mark.parametrize("value", [{}, {"path": ""}, [], {**Settings().to_json(), "spec_dirs": None}])
def test_what_is_no_settings_is_not_taken_for_some(value: object) -> None:
    with pytest.raises(ValueError, match="no settings"):
        Settings.from_json(value)  # type: ignore[arg-type]  # that is the point


UNKNOWN: dict[str, tuple[str, int, str, str]] = {
    "a letter is missing": ('[cdi]\n\nspec-dir = ["/a"]\n', 3, "cdi.spec-dir ", "cdi.spec-dirs"),
    "two letters are swapped": ('[sources]\nenvrionment = "any"\n', 2, "sources.envrionment", "sources.environment"),
    "a table": ("[source]\nmerge = true\n", 1, "source ", "sources"),
    "nothing near": ("[cdi]\n[zzzzzzzzzzz]\n", 2, "zzzzzzzzzzz", ""),
    "a key without its table": ('spec-dirs = ["/a"]\n', 1, "spec-dirs", "cdi.spec-dirs"),
    "a key in another table": ("[cdi]\nmerge = true\n", 2, "cdi.merge", "sources.merge"),
    "a short one, near to everything": ("top = 1\n", 1, "top", ""),
}


@pytest.mark.parametrize(("text", "line", "named", "near"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_a_key_that_means_nothing_is_a_warning_with_the_nearest_that_does(
    file: Path, text: str, line: int, named: str, near: str
) -> None:
    [finding] = _load(file, text).warnings
    assert (finding.id, finding.level, finding.path, finding.line) == (
        "SETTINGS_UNKNOWN_KEY",
        "WARNING",
        str(file),
        line,
    )
    assert f"the key {named}" in str(finding)
    assert str(finding).endswith(f"; did you mean {near}?" if near else "means nothing here")


def test_a_table_of_variables_has_no_unknown_keys(file: Path) -> None:
    assert _load(file, '[sources.variables]\nANY_NAME = "a.b/c"\n').warnings == []


BAD = {
    "no TOML": "cdi = [",
    "not UTF-8": b"a = '\xff'",
    "a table that is a text": 'cdi = "x"',
    "a list that is a text": '[cdi]\nspec-dirs = "/etc/cdi"',
    "a relative directory": '[cdi]\nspec-dirs = ["etc/cdi"]',
    "an empty prefix": '[cdi]\nannotation-prefixes = [""]',
    "a kind without a class": '[cdi]\ndefault-kind = "nvidia.com"',
    "a kind with two slashes": '[cdi]\ndefault-kind = "nvidia.com/gpu/0"',
    "a kind that is a number": "[cdi]\ndefault-kind = 3",
    "a source that is true": "[sources]\nenvironment = true",
    "a source that is misspelt": '[sources]\nmounts = "of"',
    "a switch that is a text": '[sources]\nmerge = "no"',
    "variables that are a list": '[sources]\nvariables = ["A"]',
    "a variable without a kind": '[sources.variables]\nA = "gpu"',
    "a variable with a sign": '[sources.variables]\n"A=B" = "a.b/c"',
    "a log that is relative": '[log]\nfile = "shim.log"',
    "nesting without an end": "a = " + "[" * 5000,
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_cannot_be_meant_is_refused_with_the_path(file: Path, text: str | bytes) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    error = _refused(file)
    assert {finding.id for finding in error.findings} == {"SETTINGS"}
    assert error.findings[0].path == str(file)


def test_all_faults_are_told_at_once_each_with_its_line(file: Path) -> None:
    file.write_text('[cdi]\nspec-dirs = "/a"\n\n[sources]\nmerge = 1\nmounts = "any"\nenvironment = 2\n')
    assert [(finding.line, str(finding).split()[1]) for finding in _refused(file).findings] == [
        (2, "cdi.spec-dirs"),
        (5, "sources.merge"),
        (7, "sources.environment"),
    ]


def test_a_fifo_holds_nobody_up(file: Path) -> None:
    os.mkfifo(file)
    assert "regular file" in str(_refused(file))


def test_a_file_without_an_end_is_refused(file: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 40)
    assert "1 MiB" in str(_refused(file))


# --- what an existing file of NVIDIA's toolkit says ---


STOCK = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
#accept-nvidia-visible-devices-envvar-when-unprivileged = true
disable-require = false
supported-driver-capabilities = "compute,utility"
[nvidia-container-cli]
ldconfig = "@/sbin/ldconfig"
[nvidia-container-runtime]
mode = "auto"
[nvidia-container-runtime.modes.cdi]
annotation-prefixes = ["cdi.k8s.io/"]
default-kind = "nvidia.com/gpu"
spec-dirs = ["/etc/cdi", "/var/run/cdi"]
"""
ENVVAR = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS = "accept-nvidia-visible-devices-as-volume-mounts"

VENDOR: dict[str, tuple[str, str, str]] = {
    "the file as it is installed switches nothing on": (STOCK, "off", "off"),
    "an empty file switches nothing on": ("", "off", "off"),
    "variables, for every container": (f"{ENVVAR} = true\n", "any", "off"),
    "variables, but not of unprivileged containers": (f"{ENVVAR} = false\n", "privileged", "off"),
    "mounts": (f"{MOUNTS} = true\n", "off", "any"),
    "no mounts": (f"{MOUNTS} = false\n", "off", "off"),
    "the hardened form: mounts for all, variables for the privileged": (
        f"{ENVVAR} = false\n{MOUNTS} = true\n{STOCK}",
        "privileged",
        "any",
    ),
}


@pytest.mark.parametrize(("text", "environment", "mounts"), VENDOR.values(), ids=VENDOR.keys())
def test_nvidias_file_switches_on_what_it_says_in_so_many_words(
    trusted_path: Path, text: str, environment: str, mounts: str
) -> None:
    found = _load(trusted_path / "nvidia-container-runtime" / "config.toml", text)
    assert (found.environment, found.mounts) == (environment, mounts)
    assert found.warnings == []


def test_nvidias_file_never_makes_us_hear_more_than_its_own_program(trusted_path: Path) -> None:
    """AMD's variable is not its affair, and the first source that asks is the only one that it hears."""
    found = _load(trusted_path / "nvidia-container-runtime" / "config.toml", f"{ENVVAR} = true\n{MOUNTS} = true\n")
    assert found.variables == {"NVIDIA_VISIBLE_DEVICES": "nvidia.com/gpu"}
    assert found.merge is False


def test_nvidias_file_says_directories_kind_prefixes_and_what_stands_in_for_its_variable(trusted_path: Path) -> None:
    found = _load(
        trusted_path / "nvidia-container-runtime" / "config.toml",
        """
        swarm-resource = "DOCKER_RESOURCE_GPU, OTHER"
        [nvidia-container-runtime.modes.cdi]
        annotation-prefixes = ["x/"]
        default-kind = "v.example/c"
        spec-dirs = ["/a"]
        """,
    )
    assert (found.annotation_prefixes, found.default_kind, found.spec_dirs) == (("x/",), "v.example/c", ("/a",))
    assert found.variables == {"NVIDIA_VISIBLE_DEVICES": "v.example/c"}
    assert found.swarm_variables == {"DOCKER_RESOURCE_GPU": "v.example/c", "OTHER": "v.example/c"}


VENDOR_BAD = {
    "an accept line that is a text": f'{ENVVAR} = "true"',
    "a swarm resource that is a list": 'swarm-resource = ["A"]',
    "directories that are a text": '[nvidia-container-runtime.modes.cdi]\nspec-dirs = "/etc/cdi"',
    "no TOML": "accept",
}


@pytest.mark.parametrize("text", VENDOR_BAD.values(), ids=VENDOR_BAD.keys())
def test_what_nvidias_file_cannot_mean_is_refused(trusted_path: Path, text: str) -> None:
    file = trusted_path / "nvidia-container-runtime" / "config.toml"
    file.parent.mkdir()
    file.write_text(text)
    assert _refused(file).findings[0].id == "SETTINGS"


def test_each_value_is_known_by_where_it_comes_from(file: Path) -> None:
    file.write_text('[log]\nfile = ""\n')
    origins = reader.read(str(file)).origins
    assert origins.pop("log.file") == str(file)
    assert set(origins.values()) == {"default"}
