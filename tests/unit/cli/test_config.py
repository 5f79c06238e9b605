"""`shim config …`: what counts, where it comes from, and a file to begin with."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from shim.config import location, reader, settings
from shim.config.keys import KEYS

NAMES = [key.name for key in KEYS]


@pytest.fixture
def file(trusted_path: Path) -> Path:
    return trusted_path / "etc" / "config.toml"


@pytest.fixture
def shim(launcher: Path, file: Path) -> Any:
    """Run a command with $SHIM_CONFIG naming `file`, whether or not that exists."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SHIM_CONFIG": str(file)}
        return subprocess.run(
            [launcher, "config", *words], capture_output=True, text=True, env=environment, check=False
        )

    return run


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


ODD = r"""
[cdi]
spec-dirs = ["/a", "/b c"]
speed = 1
[sources]
environment = "any"
[sources.variables]
"A.B" = "a.b/c"
"\u00e9\u0022\u005c" = "a.b/d"
"""


@pytest.mark.rootful
def test_show_tells_every_key_its_value_and_where_it_comes_from(shim: Any, file: Path) -> None:
    _write(file, ODD)
    done = shim("show")
    assert done.returncode == 0
    rows = [line.split("  ") for line in done.stdout.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [row[0] for row in cells] == ["KEY", *NAMES]
    assert ["cdi.spec-dirs", '["/a", "/b c"]', str(file)] in cells
    assert ["sources.environment", '"any"', str(file)] in cells
    assert ["sources.mounts", '"off"', "default"] in cells
    assert ["log.file", '"/var/log/shim.log"', "default"] in cells
    assert "WARNING SETTINGS_UNKNOWN_KEY" in done.stderr
    assert f"{file}:4: the key cdi.speed" in done.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_show_has_forms_for_programs(shim: Any, file: Path, form: str) -> None:
    _write(file, ODD)
    found = yaml.safe_load(shim("show", "-o", form).stdout)
    assert (found["file"], found["searched"]) == (str(file), [str(file)])
    assert list(found["keys"]) == NAMES
    assert found["keys"]["cdi.spec-dirs"] == {"value": ["/a", "/b c"], "from": str(file)}
    assert found["keys"]["sources.merge"] == {"value": True, "from": "default"}
    assert [one["id"] for one in found["findings"]] == ["SETTINGS_UNKNOWN_KEY"]


@pytest.mark.rootful
def test_show_as_toml_is_a_file_that_means_the_same(shim: Any, file: Path, trusted_path: Path) -> None:
    _write(file, ODD)
    copy = trusted_path / "copy.toml"
    copy.write_text(shim("show", "-o", "toml").stdout)
    again, first = location.load(str(copy)).to_json(), location.load(str(file)).to_json()
    for value in (again, first):
        del value["path"], value["warnings"]
    assert again == {**first, "log_file": "/var/log/shim.log"}


def test_show_of_a_file_of_nvidias_toolkit_says_what_is_understood(shim: Any, trusted_path: Path) -> None:
    theirs = _write(
        trusted_path / "nvidia-container-runtime" / "config.toml",
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false\ndisable-require = true\n",
    )
    done = shim("show", "-o", "json", theirs)
    keys = json.loads(done.stdout)["keys"]
    assert keys["sources.environment"] == {"value": "privileged", "from": str(theirs)}
    assert keys["sources.mounts"] == {"value": "off", "from": "default"}
    assert done.stderr == ""


REFUSED: dict[str, tuple[str, int, str]] = {
    "no TOML": ("cdi = [", 0o644, "SETTINGS"),
    "a wrong value": ("[sources]\nmounts = true\n", 0o644, "SETTINGS"),
    "not trusted": ("", 0o666, "SETTINGS_UNTRUSTED"),
}


@pytest.mark.parametrize(("text", "mode", "finding"), REFUSED.values(), ids=REFUSED.keys())
def test_show_of_a_file_that_is_refused_is_exit_status_1(
    shim: Any, file: Path, text: str, mode: int, finding: str
) -> None:
    _write(file, text).chmod(mode)
    done = shim("show")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ERROR {finding}: {file}")


def test_show_says_that_the_named_file_is_missing(shim: Any) -> None:
    done = shim("show")
    assert done.returncode == 1
    assert "is missing" in done.stderr


def test_default_is_a_file_that_changes_nothing(shim: Any, trusted_path: Path) -> None:
    done = shim("default")
    assert done.returncode == 0
    plain = trusted_path / "plain.toml"
    plain.write_text(done.stdout)
    assert set(reader.read(str(plain)).origins.values()) == {"default"}


def test_default_names_a_document_that_is_there(shim: Any) -> None:
    """It named docs/reader.md: a module was renamed, and its name in this text with it."""
    (document,) = re.findall(r"docs/\S+[.]md", shim("default").stdout)
    assert (Path(__file__).parent.parent.parent.parent / document).is_file()


@pytest.mark.rootful
def test_default_uncommented_says_the_defaults_and_explains_every_key(shim: Any, trusted_path: Path) -> None:
    text = shim("default").stdout
    lines = [
        line.removeprefix("# ") if " = " in line and not line.startswith("#   ") else line for line in text.splitlines()
    ]
    bare = trusted_path / "bare.toml"
    bare.write_text("\n".join(lines))
    found = reader.read(str(bare))
    assert set(found.origins.values()) == {str(bare)}
    expected = {**settings.Settings().to_json(), "log_file": "/var/log/shim.log", "path": str(bare)}
    assert found.settings.to_json() == expected
    assert all(key.meaning in text and key.form in text for key in KEYS)


def test_default_write_makes_the_file_that_counts_and_its_directory(shim: Any, file: Path) -> None:
    done = shim("default", "--write")
    assert (done.returncode, done.stdout) == (0, "")
    assert file.read_text() == shim("default").stdout
    assert file.stat().st_mode & 0o7777 == 0o644
    assert shim("show").returncode == 0


def test_default_write_leaves_a_file_that_is_there_unless_forced_and_then_keeps_a_copy(shim: Any, file: Path) -> None:
    _write(file, "[log]\nfile = ''\n").chmod(0o600)
    done = shim("default", "--write")
    assert done.returncode == 1
    assert "add --force" in done.stderr  # D11: the remedy was to mend the file
    assert file.read_text() == "[log]\nfile = ''\n"
    for old in ("[log]\nfile = ''\n", shim("default").stdout):
        assert shim("default", "--write", "--force").returncode == 0
        copy = file.with_name("config.toml.bak")
        assert (copy.read_text(), copy.stat().st_mode & 0o7777) == (old, 0o600)
        assert file.stat().st_mode & 0o7777 == 0o600
        assert sorted(os.listdir(file.parent)) == ["config.toml", "config.toml.bak"]


def test_default_beside_a_fifo_ends_at_once(shim: Any, trusted_path: Path) -> None:
    """The dry run read what is there, and waited for a writer."""
    os.mkfifo(trusted_path / "fifo")
    done = shim("default", "--to", trusted_path / "fifo", "--dry-run")
    assert done.returncode == 1
    assert "it is no regular file" in done.stderr


def test_default_on_a_dry_run_shows_a_diff_and_writes_nothing(shim: Any, file: Path) -> None:
    _write(file, "[log]\n")
    done = shim("default", "--write", "--dry-run")
    assert done.stdout.startswith(f"--- {file}\n+++ {file}\n")
    assert "\n+[cdi]\n" in done.stdout
    assert file.read_text() == "[log]\n"


def test_default_says_where_it_cannot_be_written(shim: Any) -> None:
    done = shim("default", "--to", "/proc/x/config.toml")
    assert done.returncode == 1
    assert "CONFIG_WRITE" in done.stderr


@pytest.mark.rootful
def test_d7_a_draft_is_checked_wherever_it_lies(shim: Any, tmp_path: Path) -> None:
    """Below /tmp, or in a home, it was not trusted, and no word was said of its content."""
    draft = _write(tmp_path / "draft/config.toml", '[cdi]\ndefault-kind = "a.b/c"\n')
    done = shim("show", draft)
    assert done.returncode == 0
    assert '"a.b/c"' in done.stdout
    assert f"{draft}: it would not count there: /tmp can be written by everybody" in done.stderr
    draft.write_text("[sources]\nmounts = true\n")
    done = shim("show", draft)
    assert done.returncode == 1
    assert done.stderr.startswith(f"ERROR SETTINGS: {draft}:2: ")


def test_d7_a_missing_file_and_one_that_is_not_trusted_are_told_apart(shim: Any, file: Path) -> None:
    missing = shim("show", file).stderr
    _write(file, "").chmod(0o666)
    untrusted = shim("show", file).stderr
    assert [text.split()[1] for text in (missing, untrusted)] == ["SETTINGS:", "SETTINGS_UNTRUSTED:"]
    assert missing.splitlines()[1] != untrusted.splitlines()[1]


@pytest.mark.other_user
@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME"])
def test_d7_a_user_s_own_file_is_written_where_it_counts(launcher: Path, trusted_path: Path, variable: str) -> None:
    """`--write` without XDG_CONFIG_HOME, or before the directory was there, went to /etc."""
    trusted_path.chmod(0o755)
    home = trusted_path / "home"
    home.mkdir()
    os.chown(home, 4242, 4242)
    below = ".config/shim/config.toml" if variable == "HOME" else "shim/config.toml"
    user: list[str | Path] = [
        "setpriv",
        "--reuid=4242",
        "--regid=4242",
        "--clear-groups",
        "env",
        "-i",
        f"{variable}={home}",
    ]
    for words in (("default", "--write"), ("show",)):
        done = subprocess.run([*user, launcher, "config", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (home / below).is_file()
    shown = subprocess.check_output([*user, launcher, "config", "show", "-o", "json"], text=True)
    assert json.loads(shown)["file"] == str(home / below)


def test_write_and_to_exclude_each_other(shim: Any) -> None:
    assert shim("default", "--write", "--to", "x").returncode == 2
