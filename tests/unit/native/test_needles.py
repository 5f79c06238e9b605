"""The needles that a configuration leaves for the launcher: when they count, and that nothing odd ever does."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from unit.native.world import World

import shim
from shim import __version__
from shim.config import needles as writer
from shim.config.location import index_path
from shim.hooks._core import ffi, lib
from shim.host import identity

MOST = 64 * 1024
QUIET = '{"annotations":{"other":"a\\u003cb"}}'


def read(directory: Path | str, name: str = "needles") -> list[str] | None:
    """What the launcher reads there, None when it does not count."""
    file = ffi.new("struct needle_file *")
    count = lib.read_needles(os.fsencode(directory), name.encode(), file)
    if count < 0 or not file.is_current:
        return None
    return [os.fsdecode(ffi.unpack(one.text, one.size)) for one in file.needles[0:count]]


def identified(path: Path | str) -> str:
    """The line of an input, as this moment has it; a second writing of shim.host.file_identity."""
    try:
        found = os.stat(path)
    except OSError:
        return f"absent {os.fspath(path)}"
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return f"input {' '.join(map(str, numbers))} {os.fspath(path)}"


def text_of(inputs: list[Path | str], needles: list[str]) -> str:
    """A file as it should be; a second writing of shim.config.needles.write."""
    lines = [
        f"shim-needles 1 {__version__}",
        *map(identified, inputs),
        *(f"needle {needle}" for needle in needles),
        "end",
    ]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text("[cdi]\n")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir(0o700)
    return made


def put(place: Path, text: str | bytes, name: str = "needles") -> Path:
    path = place / name
    path.unlink(missing_ok=True)
    path.write_bytes(os.fsencode(text) if isinstance(text, str) else text)
    path.chmod(0o600)
    return path


# --- what counts --------------------------------------------------------------------------------------------------


def test_a_file_as_it_should_be_counts(place: Path, config: Path) -> None:
    put(place, text_of([place / "missing.toml", config, "/"], ["cdi.k8s.io/", "NVIDIA_VISIBLE_DEVICES", " a b  "]))
    assert read(place) == ["cdi.k8s.io/", "NVIDIA_VISIBLE_DEVICES", " a b  "]


def test_a_configuration_without_sources_has_no_needles(place: Path, config: Path) -> None:
    put(place, text_of([config], []))
    assert read(place) == []


def test_what_python_writes_counts(place: Path, config: Path) -> None:
    inputs = [(str(config), _numbers(config)), (str(place / "missing"), None)]
    assert writer.write(str(place / "needles"), inputs, ["AMD_VISIBLE_DEVICES"])
    assert read(place) == ["cdi.k8s.io/", "AMD_VISIBLE_DEVICES"]
    assert (place / "needles").read_text() == text_of(
        [config, place / "missing"], ["cdi.k8s.io/", "AMD_VISIBLE_DEVICES"]
    )


def _numbers(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


@pytest.mark.parametrize("time", [0, -1, -1_500_000_000, 1, 999_999_999, 4_102_444_800_123_456_789])
def test_times_are_counted_as_python_counts_them(place: Path, config: Path, time: int) -> None:
    os.utime(config, ns=(time, time))
    put(place, text_of([config], ["x"]))
    assert read(place) == ["x"]


@pytest.mark.parametrize("name", ["with space", "ü", "\udcff", "a  b ", "input 1 2 3 4 5 x"])
def test_an_input_may_have_any_name_without_a_line_break(place: Path, config: Path, name: str) -> None:
    odd = config.rename(config.with_name(name))
    put(place, text_of([odd, place / name], ["x"]))
    assert read(place) == ["x"]


def test_an_input_may_be_a_link_and_its_target_counts(place: Path, config: Path) -> None:
    link = config.with_name("link.toml")
    link.symlink_to(config)
    put(place, text_of([link], ["x"]))
    assert read(place) == ["x"]
    other = config.with_name("other.toml")
    other.write_bytes(config.read_bytes())
    link.unlink()
    link.symlink_to(other)
    assert read(place) is None


# --- inputs that changed ------------------------------------------------------------------------------------------


def _replaced(path: Path) -> None:
    other = path.with_name("new")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(path.stat().st_mtime_ns,) * 2)
    other.rename(path)


def _into_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("longer", lambda path: path.write_text("[cdi]\n\n")),
    ("touched", lambda path: os.utime(path, ns=(1, 1))),
    ("replaced by the same text", _replaced),
    ("gone", lambda path: path.unlink()),
    ("another mode", lambda path: path.chmod(0o600)),
    ("a directory instead", _into_directory),
]


@pytest.mark.parametrize("change", [c[1] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_an_input_that_changed_is_noticed(place: Path, config: Path, change: Callable[[Path], object]) -> None:
    put(place, text_of(["/", config], ["x"]))
    assert read(place) == ["x"]
    change(config)
    assert read(place) is None


def test_an_input_that_appeared_is_noticed(place: Path, config: Path) -> None:
    missing = config.with_name("missing")
    put(place, text_of([config, missing, missing / "below"], ["x"]))
    assert read(place) == ["x"]
    missing.touch()
    assert read(place) is None
    put(place, text_of([config, missing / "below"], ["x"]))
    assert read(place) == ["x"], "nothing lies below a file"
    missing.unlink()
    missing.symlink_to("missing")
    assert read(place) is None, "a loop of links is not nothing"


@pytest.mark.parametrize("field", range(5))
@pytest.mark.parametrize("change", [lambda n: n + 1, lambda n: -n, lambda n: f"0{n}", lambda n: f"+{n}", lambda _: ""])
def test_each_number_of_an_input_counts(place: Path, config: Path, field: int, change: Callable[[int], object]) -> None:
    numbers: list[object] = [*_numbers(config)]
    numbers[field] = change(_numbers(config)[field])
    line = f"input {' '.join(map(str, numbers))} {config}"
    put(place, text_of([config], ["x"]).replace(identified(config), line))
    assert read(place) is None


# --- files that do not count ----------------------------------------------------------------------------------------

GOOD = f"shim-needles 1 {__version__}\nabsent /nowhere/at/all\nneedle x\nend\n"

TEXTS = [
    ("nothing", ""),
    ("another format", GOOD.replace("needles 1", "needles 2")),
    ("another version", GOOD.replace(__version__, __version__ + "1")),
    ("no version", GOOD.replace(f" {__version__}", "")),
    ("a space behind the version", GOOD.replace(__version__, __version__ + " ")),
    ("a first line that is not first", "\n" + GOOD),
    ("no end", GOOD.removesuffix("end\n")),
    ("an end that is cut off", GOOD.removesuffix("\n")),
    ("something behind the end", GOOD + "needle y\n"),
    ("even an empty line", GOOD + "\n"),
    ("bytes behind the end", GOOD + "x"),
    ("an end with something on its line", GOOD.replace("end", "end x")),
    ("an empty needle", GOOD.replace("needle x", "needle ")),
    ("a needle without a space", GOOD.replace("needle x", "needle")),
    ("an unknown line", GOOD.replace("needle x", "grants enforced\nneedle x")),
    ("an empty line", GOOD.replace("needle x", "\nneedle x")),
    ("a word in capitals", GOOD.replace("needle x", "Needle x")),
    ("an empty path", GOOD.replace("/nowhere/at/all", "")),
    ("no input at all", GOOD.replace("absent /nowhere/at/all\n", "")),
    ("an input without numbers", GOOD.replace("absent", "input")),
    ("an input without a path", GOOD.replace("absent /nowhere/at/all", "input 1 2 3 4 5")),
    ("an input with an empty path", GOOD.replace("absent /nowhere/at/all", "input 1 2 3 4 5 ")),
    ("line ends of another system", GOOD.replace("\n", "\r\n")),
    ("a NUL", GOOD.replace("needle x", "needle x\0")),
    ("a NUL behind the end", GOOD + "\0"),
    ("more needles than there is room for", GOOD.replace("needle x\n", "needle x\n" * 257)),
    ("one byte too many", GOOD.replace("needle x", "needle " + "x" * (MOST - len(GOOD) + 2))),
]


def test_the_file_that_the_next_test_breaks_is_good(place: Path) -> None:
    put(place, GOOD)
    assert read(place) == ["x"]
    put(place, GOOD.replace("needle x\n", "needle x\n" * 256))
    assert read(place) == ["x"] * 256
    put(place, GOOD.replace("needle x", "needle " + "x" * (MOST - len(GOOD) + 1)))
    assert read(place) == ["x" * (MOST - len(GOOD) + 1)]


@pytest.mark.parametrize("text", [t[1] for t in TEXTS], ids=[t[0] for t in TEXTS])
def test_a_file_that_says_it_otherwise_does_not_count(place: Path, text: str) -> None:
    put(place, text)
    assert read(place) is None


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_is_cut_off_anywhere_does_not_count(place: Path, at: int) -> None:
    put(place, GOOD[:at])
    assert read(place) is None


LINES = st.sampled_from(
    [
        *GOOD.encode().splitlines(keepends=True),
        b"needle y\n",
        b"absent /nowhere\n",
        b"absent /\n",
        b"end",
        b"\n",
        b"\xff\n",
    ]
)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(LINES, max_size=6) | st.lists(LINES, max_size=4).map(lambda more: [GOOD.encode()[:-4], *more, b"end\n"])
)
@example([GOOD.encode()])
def test_lines_in_any_order_mean_what_they_say_or_nothing(place: Path, lines: list[bytes]) -> None:
    put(place, b"".join(lines))
    found = read(place)
    whole = b"".join(lines).splitlines(keepends=True)
    first = GOOD.encode().splitlines(keepends=True)[0]
    inputs = [line for line in whole if line.startswith(b"absent ")]
    needles = [line for line in whole if line.startswith(b"needle ")]
    right = whole[:1] == [first] and whole[-1:] == [b"end\n"] and len(whole) == 2 + len(inputs) + len(needles)
    if right and inputs and b"absent /\n" not in inputs:
        assert found == [line[7:-1].decode() for line in needles]
    else:
        assert found is None


# --- whose file it is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "counts"), [(0o644, True), (0o400, True), (0o660, False), (0o606, False)])
def test_a_file_that_others_can_write_does_not_count(place: Path, mode: int, counts: bool) -> None:
    put(place, GOOD).chmod(mode)
    assert (read(place) is not None) == counts


@pytest.mark.parametrize(("mode", "counts"), [(0o755, True), (0o500, True), (0o770, False), (0o1777, False)])
def test_a_directory_that_others_can_write_does_not_count(place: Path, mode: int, counts: bool) -> None:
    put(place, GOOD)
    place.chmod(mode)
    assert (read(place) is not None) == counts


@pytest.mark.parametrize("kind", ["a link", "a FIFO", "a directory", "nothing", "a socket's name that is a device"])
def test_what_is_no_file_does_not_count(place: Path, tmp_path: Path, kind: str) -> None:
    path = place / "needles"
    if kind == "a link":
        put(tmp_path, GOOD, "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "a FIFO":
        os.mkfifo(path, 0o600)
    elif kind == "a directory":
        path.mkdir(0o700)
    elif kind != "nothing":
        path.symlink_to("/dev/null")
    assert read(place) is None


def test_a_directory_that_is_a_link_does_not_count(place: Path, tmp_path: Path) -> None:
    put(place, GOOD)
    (tmp_path / "link").symlink_to(place)
    assert read(tmp_path / "link") is None
    assert read(tmp_path / "missing") is None


@pytest.mark.parametrize("whose", ["file", "directory"])
def test_what_belongs_to_somebody_else_does_not_count(place: Path, whose: str) -> None:
    path = put(place, GOOD)
    assert read(place) == ["x"]
    os.chown(path if whose == "file" else place, 1234, -1)
    assert read(place) is None


# --- which file, and what the launcher makes of it --------------------------------------------------------------------

SYSTEM, VENDOR = "/etc/shim/config.toml", "/etc/nvidia-container-runtime/config.toml"
ASKS = '{"process":{"env":["MY_DEVICES=all"]}}'


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("w"))
    yield made
    made.close()


@pytest.fixture
def clean(world: World) -> World:
    """The world without a configuration and without needles."""
    world.inside("rm", "-rf", SYSTEM, VENDOR)
    world.inside("find", "/run/shim/", "-name", "needles*", "-delete")
    return world


def file_name(path: str) -> str:
    """The name of the needles of a configuration: the usual one, or FNV-1a of its path."""
    number = 0xCBF29CE484222325
    for byte in os.fsencode(path):
        number = (number ^ byte) * 0x100000001B3 % 2**64
    return "needles" if path == SYSTEM else f"needles-{number:016x}"


def configured(world: World, name: str, *inputs: str, needles: tuple[str, ...] = ("MY_DEVICES",)) -> None:
    """Leave needles in the world, for inputs as they are there."""
    root = f"/proc/{world.holder.pid}/root"
    text = text_of([root + path if path.startswith("/") else path for path in inputs], list(needles))
    world.put(f"/run/shim/{name}", text.replace(root, ""))


def went(world: World, config: str, *words: str, env: list[bytes] | None = None, rootless: bool = False) -> str:
    world.config(config)
    variables = [*(env or []), *([] if rootless else world.run_env)]
    outcome = world.call(*(words or ("create", "x")), env=variables, rootless=rootless)
    assert (outcome.status, outcome.stderr) == (0, "")
    return "python" if outcome.python else "runtime"


def needles_hold(world: World, env: list[bytes] | None = None, *, rootless: bool = False) -> bool:
    """Whether creates are told apart by MY_DEVICES and not all of them sent to Python."""
    asking = went(world, ASKS, env=env, rootless=rootless)
    quiet = went(world, QUIET, env=env, rootless=rootless)
    assert asking == "python"
    return quiet == "runtime"


def test_names_are_those_that_python_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "run_dir", lambda **_: "/run/shim")
    for path in (SYSTEM, VENDOR, "/x", "a", "/etc/shim//config.toml", "/\udcff"):
        assert index_path(path).replace("index", "needles", 1) == f"/run/shim/{file_name(path)}"
    assert file_name("a") == "needles-af63dc4c8601ec8c", "the published test vector of FNV-1a"


def test_without_a_configuration_the_annotation_alone_asks(clean: World) -> None:
    assert went(clean, ASKS) == "runtime"
    assert went(clean, '{"annotations":{"cdi.k8s.io/x":""}}') == "python"
    configured(clean, "needles", SYSTEM, VENDOR)
    assert went(clean, ASKS) == "runtime", "needles of a configuration that is gone"


@pytest.mark.rootful
def test_needles_spare_python_the_creates_that_do_not_ask(clean: World) -> None:
    clean.put(SYSTEM)
    assert not needles_hold(clean)
    configured(clean, "needles", SYSTEM, VENDOR)
    assert needles_hold(clean)
    assert went(clean, QUIET, "run", "--device", "a/b=c", "x") == "python"
    assert went(clean, QUIET, "--new", "create", "x") == "python"
    assert went(clean, ASKS, "restore", "x") == "python"
    assert went(clean, QUIET, "restore", "x") == "runtime"
    assert went(clean, '{"annotations":{"cdi.k8s.io/x":""}}') == "runtime", "the configuration may have taken it out"


def test_needles_of_an_older_configuration_do_not_count(clean: World) -> None:
    clean.put(SYSTEM)
    configured(clean, "needles", SYSTEM, VENDOR)
    clean.put(SYSTEM, "[cdi]")
    assert not needles_hold(clean)
    configured(clean, "needles", VENDOR)
    clean.put(VENDOR)
    assert not needles_hold(clean)


@pytest.mark.rootful
@pytest.mark.parametrize("broken", [False, True])
def test_needles_of_the_configuration_that_counted_last_are_looked_for_as_well(clean: World, broken: bool) -> None:
    """They may hold after the change, and then a container that asks must not start without Python."""
    clean.put(SYSTEM)
    configured(clean, "needles", SYSTEM, VENDOR)
    clean.put(SYSTEM, "[cdi]")
    good = clean.launch.read_text()
    if broken:
        clean.launch.write_text("")
    try:
        for config, asks in ((ASKS, True), (QUIET, False)):
            clean.config(config)
            outcome = clean.call("create", "x", env=clean.run_env)
            if broken:
                assert (outcome.status, outcome.runtime is not None) == ((1, False) if asks else (0, True))
            else:
                assert outcome.python
                assert ("asks" in outcome.python.verdict()) is not asks
    finally:
        clean.launch.write_text(good)


def test_a_stale_file_still_says_its_needles(place: Path, config: Path) -> None:
    put(place, text_of([config], ["x", "y"]))
    file = ffi.new("struct needle_file *")
    for current in (True, False):
        count = lib.read_needles(os.fsencode(place), b"needles", file)
        assert [ffi.unpack(one.text, one.size) for one in file.needles[0:count]] == [b"x", b"y"]
        assert bool(file.is_current) is current
        config.write_text("changed")


@pytest.mark.rootful
def test_the_vendors_configuration_is_one(clean: World) -> None:
    clean.put(VENDOR)
    assert not needles_hold(clean)
    configured(clean, "needles", SYSTEM, VENDOR)
    assert needles_hold(clean)


@pytest.mark.rootful
def test_a_configuration_that_the_environment_names_has_needles_of_its_own(clean: World) -> None:
    named = [b"SHIM_CONFIG=/etc/shim/other.toml"]
    clean.put(SYSTEM)
    clean.put("/etc/shim/other.toml")
    configured(clean, "needles", SYSTEM, VENDOR)
    assert not needles_hold(clean, named)
    configured(clean, file_name("/etc/shim/other.toml"), "/etc/shim/other.toml")
    assert needles_hold(clean, named)
    clean.inside("rm", "/run/shim/needles")
    assert not needles_hold(clean)
    assert not needles_hold(clean, [b"SHIM_CONFIG=/etc/shim//other.toml"]), "another spelling is another name"


def test_a_named_configuration_that_is_missing_is_pythons_to_tell(clean: World) -> None:
    assert not needles_hold(clean, [b"SHIM_CONFIG=/not/there"])
    configured(clean, "needles", SYSTEM, VENDOR)
    assert not needles_hold(clean, [b"SHIM_CONFIG=/not/there"])


@pytest.mark.rootful
def test_naming_the_usual_configuration_changes_nothing(clean: World) -> None:
    clean.put(SYSTEM)
    configured(clean, "needles", SYSTEM)
    assert needles_hold(clean, [b"SHIM_CONFIG=" + SYSTEM.encode()])
    assert needles_hold(clean, [b"SHIM_CONFIG="])


def test_the_users_own_configuration_is_nothing_to_the_hosts_root(clean: World, tmp_path: Path) -> None:
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim/config.toml").touch()
    home = [b"XDG_CONFIG_HOME=" + os.fsencode(tmp_path)]
    assert went(clean, QUIET, env=home) == ("runtime" if identity.is_rootful() else "python")
    clean.put(SYSTEM)
    configured(clean, "needles", SYSTEM, VENDOR)
    assert needles_hold(clean, home) == identity.is_rootful()


def test_the_users_own_configuration_counts_for_the_rootless(clean: World, tmp_path: Path) -> None:
    clean.put(SYSTEM)
    own = tmp_path / "shim/config.toml"
    home = [b"XDG_CONFIG_HOME=" + os.fsencode(tmp_path)]
    everything = [*home, b"XDG_RUNTIME_DIR=/run/user"]
    configured(clean, "needles", SYSTEM, VENDOR)
    assert needles_hold(clean, everything, rootless=True), "there is no such directory yet"
    own.parent.mkdir()
    assert not needles_hold(clean, everything, rootless=True), "one that may come to count has a name of its own"
    configured(clean, file_name(str(own)), str(own), SYSTEM, VENDOR)
    assert needles_hold(clean, everything, rootless=True)
    own.touch()
    assert not needles_hold(clean, everything, rootless=True)
    configured(clean, file_name(str(own)), str(own))
    assert needles_hold(clean, everything, rootless=True)
    assert not needles_hold(clean, home, rootless=True), "without a run directory there are no needles"


@pytest.mark.rootful
def test_d7_the_users_own_configuration_is_below_home_where_no_variable_says_otherwise(
    clean: World, tmp_path: Path
) -> None:
    """The launcher must look where Python does, or a source that the file switches on is not searched for."""
    clean.put(SYSTEM)
    own = tmp_path / ".config/shim/config.toml"
    home = [b"HOME=" + os.fsencode(tmp_path), b"XDG_RUNTIME_DIR=/run/user"]
    configured(clean, "needles", SYSTEM, VENDOR)
    assert needles_hold(clean, home, rootless=True), "there is no such directory yet"
    own.parent.mkdir(parents=True)
    assert not needles_hold(clean, home, rootless=True)
    configured(clean, file_name(str(own)), str(own), SYSTEM, VENDOR)
    assert needles_hold(clean, home, rootless=True)
    assert not needles_hold(clean, home) or identity.is_rootful(), "it is nothing to the host's root"


def test_a_directory_of_somebody_else_is_not_the_users_own(clean: World, tmp_path: Path) -> None:
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim/config.toml").touch()
    os.chown(tmp_path / "shim", 1234, -1)
    home = [b"XDG_CONFIG_HOME=" + os.fsencode(tmp_path), b"XDG_RUNTIME_DIR=/run/user"]
    assert went(clean, QUIET, env=home, rootless=True) == "runtime"


@pytest.mark.rootful
def test_the_needles_that_python_leaves_are_used(clean: World) -> None:
    """The whole circle: the first create is Python's, which reads the configuration; the next need it no more."""
    clean.put(SYSTEM, '[cdi]\nannotation-prefixes = ["my.example/"]\n', 0o644)
    assert went(clean, QUIET) == "python"
    good = clean.launch.read_text()
    clean.launch.write_text(f"{sys.executable}\n{Path(shim.__file__).parent.parent}\n")
    try:
        time.sleep(0.2)  # a configuration that has just changed leaves no needles
        assert went(clean, QUIET) == "runtime"
        clean.inside("test", "-f", "/run/shim/needles")
    finally:
        clean.launch.write_text(good)
    assert went(clean, QUIET) == "runtime"
    assert went(clean, '{"annotations":{"my.example/x":"a/b=c"}}') == "python"
    clean.put(SYSTEM, "[cdi]\n", 0o644)
    assert went(clean, QUIET) == "python"


@pytest.mark.rootful
@pytest.mark.parametrize(("mode", "counts"), [(0o755, True), (0o770, False), (0o707, False)])
def test_needles_in_a_directory_that_others_can_write_do_not_count(clean: World, mode: int, counts: bool) -> None:
    clean.put(SYSTEM)
    configured(clean, "needles", SYSTEM, VENDOR)
    clean.inside("chmod", f"{mode:o}", "/run/shim")
    try:
        assert needles_hold(clean) == counts
    finally:
        clean.inside("chmod", "700", "/run/shim")
    assert needles_hold(clean)
