"""The grammar: which word is the verb, where the bundle is, what is ours. By tables, models, runtimes and engines."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.native import calls, models

TRACES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/engine-traces.json").read_text())

# a command line in one string, and what must come out: only what is named is compared
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    # --- the verb
    ("a verb alone", "runc", "runc state x", {"verb": "state", "at": 1, "injects": False}),
    ("no word at all", "runc", "runc", {"verb": "", "at": 0, "injects": False}),
    (
        "create as a value is no verb",
        "runc",
        "runc --root create state x",
        {"verb": "state", "at": 3, "injects": False},
    ),
    ("create as an operand is no verb", "runc", "runc delete --force create", {"verb": "delete", "injects": False}),
    (
        "an option's value is the next word, whatever it is",
        "runc",
        "runc --log --debug create x",
        {"verb": "create", "at": 3},
    ),
    ("a value behind = takes no word", "runc", "runc --log=l create x", {"verb": "create", "at": 2, "log": "l"}),
    ("an empty value behind = is a value", "runc", "runc --log= create x", {"verb": "create", "at": 2, "log": ""}),
    ("one dash is as good as two for runc", "runc", "runc -log l -debug=true create x", {"at": 4, "log": "l"}),
    ("a boolean of runc may be false", "runc", "runc --debug=false create x", {"verb": "create", "injects": True}),
    ("-- ends the global options", "runc", "runc --debug -- create x", {"verb": "create", "at": 3, "injects": True}),
    ("-- ends crun's as well", "crun", "crun -- run x", {"verb": "run", "at": 2, "injects": True}),
    ("a single dash is a word", "runc", "runc - create", {"verb": "-", "injects": False}),
    ("verbs are not abbreviated", "crun", "crun creat x", {"verb": "creat", "injects": False}),
    # --- questions
    ("help in front of the verb is a question", "runc", "runc --help create x", {"verb": "create", "injects": False}),
    ("so is the version", "runc", "runc -v create x", {"injects": False}),
    ("help=false is none", "runc", "runc --help=false create x", {"injects": True}),
    ("the last help counts", "runc", "runc -h -h=0 create x", {"injects": True}),
    ("help behind the verb is a question", "runc", "runc create x -h", {"injects": False}),
    ("crun answers at once", "crun", "crun --help create x", {"verb": "", "injects": False}),
    ("crun answers to -? behind the verb", "crun", "crun create -? x", {"injects": False}),
    ("crun answers to a beginning of usage", "crun", "crun create --us x", {"injects": False}),
    ("crun answers inside a cluster", "crun", "crun run -d?b x y", {"injects": False}),
    # --- the bundle
    ("bundle in two words", "runc", "runc create --bundle /b x", {"bundle": "/b", "id": "x"}),
    ("bundle in one", "runc", "runc create --bundle=/b x", {"bundle": "/b", "id": "x"}),
    ("bundle with one dash", "runc", "runc create -bundle /b x", {"bundle": "/b", "id": "x"}),
    ("bundle by its letter", "runc", "runc run -b /b x", {"bundle": "/b", "id": "x"}),
    ("bundle by its letter and =", "runc", "runc run -b=/b x", {"bundle": "/b", "id": "x"}),
    ("runc accepts options behind the id", "runc", "runc create x --bundle /b", {"bundle": "/b", "id": "x"}),
    ("the last bundle counts", "runc", "runc create --bundle /a --bundle /b x", {"bundle": "/b"}),
    ("an empty bundle of runc is the working directory", "runc", "runc create --bundle /a --bundle= x", {"bundle": ""}),
    ("a bundle may be called --", "runc", "runc create --bundle -- x", {"bundle": "--", "id": "x"}),
    ("behind -- there are no options", "runc", "runc create -- --bundle", {"bundle": "", "id": "--bundle"}),
    ("crun's letter takes the rest of the word", "crun", "crun create -b/b x", {"bundle": "/b", "id": "x"}),
    ("and = belongs to it", "crun", "crun create -b=/b x", {"bundle": "=/b"}),
    ("crun has clusters", "crun", "crun run -db /b x", {"bundle": "/b", "id": "x"}),
    ("crun has abbreviations", "crun", "crun create --bun /b x", {"bundle": "/b", "id": "x"}),
    ("one dash is a cluster for crun", "crun", "crun create -bundle x", {"bundle": "undle", "id": "x"}),
    # --- the other values
    (
        "crun's config names the file",
        "crun",
        "crun create -f other.json -b /b x",
        {"config": "other.json", "bundle": "/b"},
    ),
    ("its plain default is the bundle's", "crun", "crun create --config config.json x", {"config": ""}),
    (
        "for runc that is one in the working directory",
        "runc",
        "runc create --config config.json x",
        {"config": "config.json"},
    ),
    ("root and log format", "runc", "runc --root /r --log-format=json create x", {"root": "/r", "log_format": "json"}),
    ("newer runc has the global options behind the verb too", "runc", "runc create --log l x", {"log": "l", "id": "x"}),
    ("crun's log may be a file by scheme", "crun", "crun --log file:/l create x", {"log": "/l"}),
    ("or nothing that can be written to", "crun", "crun --log journald:x create x", {"log": ""}),
    ("an exact name wins over longer ones", "crun", "crun --log l create x", {"log": "l", "unknown": ""}),
    ("an abbreviation of a global option", "crun", "crun --log-f json create x", {"log_format": "json", "unknown": ""}),
    (
        "restore is read like create",
        "runc",
        "runc restore --bundle /b --image-path /i --work-path /w x",
        {"verb": "restore", "bundle": "/b", "id": "x", "injects": True},
    ),
    ("crun's restore, too", "crun", "crun restore -db/b --image /i x", {"bundle": "/b", "id": "x", "injects": True}),
    ("help behind restore is a question", "runc", "runc restore --help", {"injects": False}),
    # --- exec
    (
        "exec has a process file",
        "runc",
        "runc exec --process /p --detach x",
        {"verb": "exec", "process": "/p", "id": "x", "injects": False},
    ),
    ("by its letter", "runc", "runc exec -p /p x", {"process": "/p", "id": "x"}),
    ("in one word", "runc", "runc exec -process=/p x", {"process": "/p", "id": "x"}),
    ("exec without a process file", "runc", "runc exec x ls", {"process": "", "id": "x"}),
    ("an empty one is none", "runc", "runc exec --process= x ls", {"process": "", "id": "x"}),
    ("the last process file counts", "runc", "runc exec --process /a --process /p x", {"process": "/p"}),
    ("exec's options end at the id", "runc", "runc exec x --process /p", {"process": "", "id": "x"}),
    ("and at crun's", "crun", "crun exec x -p /p", {"process": "", "id": "x"}),
    ("-- ends them before it", "runc", "runc exec -- x -p /p", {"process": "", "id": "x"}),
    ("the id may look like an option then", "runc", "runc exec -- -p x", {"process": "", "id": "-p"}),
    ("the values of exec are no id", "runc", "runc exec -e A=b -u 0 -g 5 -c CAP --cwd / -p /p x", {"id": "x"}),
    ("a switch of exec takes no word", "runc", "runc exec -t -d --no-new-privs --ignore-paused x ls", {"id": "x"}),
    ("crun's tty has no next word", "crun", "crun exec --tty x -p /p", {"id": "x", "process": ""}),
    ("but may have a value", "crun", "crun exec --tty=/dev/pts/3 -p /p x", {"id": "x", "process": "/p"}),
    ("which ends a cluster", "crun", "crun exec -dtp x ls", {"id": "x", "process": ""}),
    ("crun's clusters in exec", "crun", "crun exec -dp/p x", {"id": "x", "process": "/p"}),
    ("crun's abbreviations in exec", "crun", "crun exec --pid f --proc /p x", {"id": "x", "process": "/p"}),
    ("an exact name wins there", "crun", "crun exec --process /p --process-label l x", {"id": "x", "process": "/p"}),
    ("help behind exec is a question", "runc", "runc exec -p /p --help x", {"process": ""}),
    ("but not behind the id", "runc", "runc exec -p /p x --help", {"process": "/p", "id": "x"}),
    ("nor for crun", "crun", "crun exec -p /p x -?", {"process": "/p", "id": "x"}),
    ("newer runc has the global options behind exec", "runc", "runc exec --root /r -p /p x", {"root": "/r", "id": "x"}),
    ("an exec behind an unknown option", "runc", "runc --new v exec -p /p x", {"verb": "exec", "process": "/p"}),
    ("a create counts before an exec", "runc", "runc --new exec create x", {"verb": "create", "unknown": "--new"}),
    ("a process file of another verb is none", "runc", "runc create -p /p x", {"process": ""}),
    # --- update
    (
        "update has a file of resources",
        "runc",
        "runc --root /r update --resources /f x",
        {"verb": "update", "resources": "/f", "id": "x", "root": "/r", "injects": False},
    ),
    ("or standard input", "crun", "crun update -r - x", {"resources": "-", "id": "x"}),
    ("by its letter and in one word", "crun", "crun update -r/f x", {"resources": "/f", "id": "x"}),
    ("by crun's abbreviation", "crun", "crun update --reso=/f x", {"resources": "/f", "id": "x"}),
    ("limits one by one are no file", "runc", "runc update --memory 64 --cpu-share 5 x", {"resources": "", "id": "x"}),
    ("behind the id, too", "runc", "runc update x --resources=-", {"resources": "-", "id": "x"}),
    ("an empty one is none", "runc", "runc update --resources= x", {"resources": "", "id": "x"}),
    ("a question has none", "runc", "runc update --resources - --help x", {"resources": ""}),
    ("resources of another verb are none", "runc", "runc exec -r - x", {"resources": ""}),
    ("an update behind an unknown option", "runc", "runc --new v update -r - x", {"verb": "update", "resources": "-"}),
    (
        "an option of the other runtime is read as there",
        "runc",
        "runc --cgroup-manager disabled create x",
        {"unknown": ""},
    ),
    # --- ours
    ("a device in two words", "runc", "runc create --device a/b=c x", {"devices": ["a/b=c"], "argv": "runc create x"}),
    ("a device in one", "runc", "runc run --device=a/b=c x", {"devices": ["a/b=c"], "argv": "runc run x"}),
    ("a device with one dash", "runc", "runc create -device c x", {"devices": ["c"], "argv": "runc create x"}),
    (
        "devices keep their order",
        "crun",
        "crun run --device 2 x --device=1",
        {"devices": ["2", "1"], "argv": "crun run x"},
    ),
    (
        "a device behind -- is not ours",
        "runc",
        "runc create -- --device c",
        {"devices": [], "argv": "runc create -- --device c"},
    ),
    (
        "a device of another verb is not ours",
        "runc",
        "runc exec --device c x",
        {"devices": [], "argv": "runc exec --device c x"},
    ),
    ("a device as a value is not ours", "runc", "runc create -b --device x", {"devices": [], "bundle": "--device"}),
    (
        "a device without a value stays",
        "runc",
        "runc create x --device",
        {"devices": [], "argv": "runc create x --device"},
    ),
    ("crun's abbreviations keep their meaning", "crun", "crun run --de x", {"devices": [], "argv": "crun run --de x"}),
    # --- ours in front of the verb
    (
        "in two words",
        "runc",
        "runc --device a/b=c create x",
        {"devices": ["a/b=c"], "argv": "runc create x", "unknown": "", "injects": True},
    ),
    ("in one", "crun", "crun --device=a/b=c create x", {"devices": ["a/b=c"], "argv": "crun create x", "unknown": ""}),
    ("with one dash", "runc", "runc -device a/b=c run x", {"devices": ["a/b=c"], "argv": "runc run x", "unknown": ""}),
    (
        "one dash is a cluster for crun",
        "crun",
        "crun -device create x",
        {"devices": [], "argv": "crun -device create x", "unknown": "-device"},
    ),
    (
        "several, on both sides of the verb",
        "runc",
        "runc --device 1 --root /r --device=2 --debug create --device 3 --bundle /b x --device=4",
        {"devices": ["1", "2", "3", "4"], "argv": "runc --root /r --debug create --bundle /b x", "root": "/r"},
    ),
    ("its value may be a verb", "runc", "runc --device create run x", {"devices": ["create"], "verb": "run", "at": 3}),
    (
        "it may be the value of another option",
        "runc",
        "runc --root --device create x",
        {"devices": [], "verb": "create"},
    ),
    ("or be empty", "crun", "crun --device= create x", {"devices": [""], "argv": "crun create x"}),
    (
        "behind -- it is the verb",
        "runc",
        "runc -- --device create x",
        {"devices": [], "verb": "--device", "argv": "runc -- --device create x", "injects": False},
    ),
    (
        "in front of --",
        "crun",
        "crun --device c -- create x",
        {"devices": ["c"], "verb": "create", "argv": "crun -- create x"},
    ),
    (
        "without a value it stays",
        "runc",
        "runc --debug --device",
        {"verb": "", "devices": [], "argv": "runc --debug --device"},
    ),
    ("no abbreviation of it counts", "crun", "crun --devic=c create x", {"devices": [], "unknown": ""}),
    (
        "debug is still crun's",
        "crun",
        "crun --de create x",
        {"devices": [], "argv": "crun --de create x", "verb": "create"},
    ),
    *(
        (
            f"it is taken out in front of {verb}",
            runtime,
            f"{runtime} --log l --device a/b=c {verb} --force x --device",
            {"verb": verb, "injects": False, "argv": f"{runtime} --log l {verb} --force x --device"},
        )
        for verb in ("state", "kill", "delete", "exec", "start", "list", "spec")
        for runtime in ("runc", "crun")
    ),
    ("and where there is no verb", "runc", "runc --device c --version", {"argv": "runc --version", "injects": False}),
    (
        "what stands behind crun's is not read",
        "crun",
        "crun --version --device=c create x",
        {"argv": "crun --version --device=c create x", "devices": []},
    ),
    ("in front of a question", "crun", "crun --device=c --help", {"argv": "crun --help", "injects": False}),
    (
        "in front of restore",
        "runc",
        "runc --device c restore --bundle /b x",
        {"devices": ["c"], "verb": "restore", "argv": "runc restore --bundle /b x", "injects": True},
    ),
    (
        "an exec has its file all the same",
        "crun",
        "crun --device=c exec --process /p x",
        {"verb": "exec", "process": "/p", "id": "x", "argv": "crun exec --process /p x"},
    ),
    (
        "an update, too",
        "runc",
        "runc --device c update --resources - x",
        {"verb": "update", "resources": "-", "id": "x", "argv": "runc update --resources - x"},
    ),
    (
        "behind an unknown option it may be a value: it asks, and stays",
        "runc",
        "runc --new --device=c create x",
        {"devices": ["c"], "verb": "create", "unknown": "--new", "argv": "runc --new --device=c create x"},
    ),
    (
        "and where nothing is created it only stays",
        "runc",
        "runc --new --device=c kill x",
        {"unknown": "", "injects": False, "argv": "runc --new --device=c kill x"},
    ),
    (
        "behind an unknown option with a value it is certain",
        "crun",
        "crun --new=v --device c create x",
        {"devices": ["c"], "unknown": "", "argv": "crun --new=v create x"},
    ),
    # --- unknown options in front of the verb
    (
        "unknown, then the verb",
        "runc",
        "runc --new create x",
        {"verb": "create", "at": 2, "unknown": "--new", "injects": True},
    ),
    ("unknown with a value", "runc", "runc --new v create x", {"verb": "create", "at": 3, "unknown": "--new"}),
    ("unknown with a value behind = is certain", "runc", "runc --new=v create x", {"verb": "create", "unknown": ""}),
    ("two unknown ones", "runc", "runc --a 1 --b create x", {"verb": "create", "at": 4, "injects": True}),
    ("what creates counts before what does not", "runc", "runc --new run create", {"verb": "run", "at": 2}),
    (
        "neither reading creates",
        "runc",
        "runc --new state x create",
        {"verb": "state", "unknown": "", "injects": False},
    ),
    ("a question may be the value", "runc", "runc --new --help create x", {"injects": True, "unknown": "--new"}),
    (
        "what another reading would say behind the verb is not said",
        "crun",
        "crun --new create --odd --root /r x",
        {"verb": "create", "root": "", "unknown": "--new"},
    ),
    ("the first unknown one is named", "runc", "runc --new create --odd x", {"injects": True, "unknown": "--new"}),
    ("candidates of an abbreviation agree", "crun", "crun --ro x create y", {"verb": "create", "unknown": ""}),
    ("a cluster that nobody knows", "crun", "crun -x y create z", {"verb": "create", "at": 3, "unknown": "-x"}),
]


@pytest.mark.parametrize(("runtime", "line", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_command_lines(runtime: str, line: str, expected: dict[str, Any]) -> None:
    call = calls.parse_call(line.split(), runtime)
    found = {name: getattr(call, name) for name in expected}
    if "argv" in found:
        found["argv"] = " ".join(found["argv"])
    assert found == expected


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        ("/usr/sbin/runc", "runc"),
        ("/usr/bin/crun", "crun"),
        ("/opt/crun-vm", "crun"),
        ("/crun/youki", "runc"),
        ("crun", "crun"),
    ],
)
def test_the_name_of_the_runtime_tells_its_grammar(path: str, runtime: str) -> None:
    assert calls.grammar_of(path) == runtime


def test_bytes_that_are_no_text_survive() -> None:
    call = calls.parse_call(["runc", "create", "-b", "/\udcff", "--device", "\udcfe", "x"], "runc")
    assert (call.bundle, call.devices, call.argv[-1]) == ("/\udcff", ["\udcfe"], "x")


# --- what the installed runtimes say they take --------------------------------------------------------------------


def _help(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _printed_options() -> list[tuple[str, str, str, bool]]:
    """Every option in the help texts: runtime, verb ("" for a global one), option, whether it takes a value."""
    found = []
    for verb in ("", "create", "run", "restore", "exec", "update"):
        words = [verb] if verb else []
        for line in _help("runc", *words, "--help").splitlines():
            if match := re.match(r"   (--[a-z-]+)( value)?(?:, (-\w)\2?)?  ", line):
                found += [("runc", verb, name, bool(match[2])) for name in (match[1], match[3]) if name]
        if verb == "restore":  # Debian builds crun without it
            continue
        for line in _help("crun", *words, "--help").splitlines():
            if match := re.match(r" {2}(?:(-.), |    )((?:-\w, )*)(--[a-z-]+)(=\w+|\[=\w+\])?(?:  |$)", line):
                names = [match[1], *re.findall(r"-\w", match[2]), match[3]]
                found += [("crun", verb, name, (match[4] or "")[:1] == "=") for name in names if name]
    return found


PRINTED = _printed_options()


def test_the_help_texts_are_understood() -> None:
    """The next test would prove nothing if it found nothing."""
    assert {("runc", "", "--root", True), ("runc", "run", "-b", True), ("crun", "", "-V", False)} <= set(PRINTED)
    assert {("crun", "create", "-f", True), ("crun", "run", "--no-pivot", False)} <= set(PRINTED)
    assert {("crun", "exec", "-p", True), ("crun", "exec", "--tty", False), ("runc", "exec", "-g", True)} <= set(
        PRINTED
    )
    assert {("runc", "restore", "--empty-ns", True), ("runc", "restore", "-d", False)} <= set(PRINTED)
    assert len(PRINTED) > 120


@pytest.mark.parametrize(("runtime", "verb", "option", "takes_value"), PRINTED, ids=str)
def test_every_printed_option_is_known(runtime: str, verb: str, option: str, takes_value: bool) -> None:
    """An option that takes a value swallows the word behind it; one that takes none leaves it to be what it is."""
    if option.lstrip("-") in {"help", "h", "?", "usage", "version", "v", "V"}:
        asked = {"exec": [verb, "-p", "p", option], "update": [verb, "-r", "-", option], "": [option, "create"]}
        call = calls.parse_call([runtime, *asked.get(verb, [verb, option]), "x"], runtime)
        assert (call.injects, call.process, call.resources) == (False, "", "")
    elif verb == "exec":
        call = calls.parse_call([runtime, verb, option, "x", "-p", "p", "y"], runtime)
        assert (call.id, call.process) == (("y", "p") if takes_value else ("x", ""))
    elif verb == "update":
        call = calls.parse_call([runtime, verb, option, "-r", "y", "x"], runtime)
        said = ("-r" if takes_value else "y") if option in {"-r", "--resources"} else "" if takes_value else "y"
        assert (call.id, call.resources) == ("x", said)
    elif verb == "restore":  # what it swallows is the end of the options
        call = calls.parse_call([runtime, verb, option, "--", "--root", "y", "x"], runtime)
        assert call.root == ("y" if takes_value and runtime == "runc" else "")
    elif verb:
        call = calls.parse_call([runtime, verb, option, "--device", "x", "y"], runtime)
        assert call.devices == ([] if takes_value else ["x"])
    else:
        call = calls.parse_call([runtime, option, "run", "create", "x"], runtime)
        assert (call.verb, call.unknown) == ("create" if takes_value else "run", "")


def test_no_installed_runtime_has_a_device_option_of_its_own() -> None:
    """In front of a verb or behind create and run it would be ours."""
    assert [line for line in PRINTED if line[2].lstrip("-").startswith("device")] == []


# --- what engines call --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", TRACES, ids=lambda t: f"{t['engine']}-{t['version']}-{t['subcommand']}")
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_recorded_calls_of_engines(trace: dict[str, Any], runtime: str) -> None:
    """Engines call both runtimes alike, so each grammar must understand every recorded call."""
    argv = trace["argv"]
    call = calls.parse_call(argv, runtime)
    creates = trace["subcommand"] in {"create", "run"}
    assert call.verb == (trace["subcommand"] or "")
    assert (call.injects, call.unknown, call.devices, call.argv) == (creates, "", [], argv)
    if creates:
        assert call.bundle == argv[argv.index("--bundle") + 1]
        assert call.id == argv[-1]
    if trace["subcommand"] == "update":
        (given,) = (word for word in argv if word.startswith("--resources"))
        assert call.resources == (given.partition("=")[2] or argv[argv.index("--resources") + 1])
        assert call.id == argv[-1]
    else:
        assert call.resources == ""
    if trace["subcommand"] == "exec":
        assert call.process == argv[argv.index("--process") + 1]
        assert call.id == argv[-1]
    else:
        assert call.process == ""


# --- what models and real runtimes do with odd ones ---------------------------------------------------------------


def _words(line: str) -> list[str]:
    return line.split()


VALUES = [*_words("/nope1 /nope2 x -- - create run --bundle -b --device --debug json = 3"), ""]


class Words:
    """The words that make up command lines of a runtime: options with and without value, whole ones, and wrong ones."""

    def __init__(self, before: dict[str, bool], behind: dict[str, bool], whole: list[str], wrong: list[str]) -> None:
        self.before = self._chunk(before, [word for word in whole if "b" not in word.partition("=")[0]], wrong)
        self.behind = self._chunk(behind, whole, wrong)

    @staticmethod
    def _chunk(options: dict[str, bool], whole: list[str], wrong: list[str]) -> st.SearchStrategy[list[str]]:
        plain = [[name] for name, takes_value in options.items() if not takes_value]
        valued = [name for name, takes_value in options.items() if takes_value]
        pairs = st.tuples(st.sampled_from(valued), st.sampled_from(VALUES)).map(list)
        odd = st.sampled_from([[word] for word in wrong + VALUES])
        common = st.sampled_from([*plain, *([word] for word in whole)])
        return st.sampled_from([pairs, pairs, pairs, common, common, common, common, odd]).flatmap(
            lambda chosen: chosen
        )

    def command_lines(self, *verbs: str) -> st.SearchStrategy[list[str]]:
        """Command lines that are mostly right: options, one of the verbs, options around the id."""
        verb = st.sampled_from([*([verb] for verb in verbs), ["--", verbs[-1]], ["state"]])
        ident = st.sampled_from([["id"]] * 8 + [["--", "id"], []])
        chunks = st.tuples(
            st.lists(self.before, max_size=3),
            verb.map(lambda words: [words]),
            st.lists(self.behind, max_size=4),
            ident.map(lambda words: [words]),
            st.just([]) | st.lists(self.behind, max_size=2),
        )
        return chunks.map(lambda parts: ["r", *(word for part in parts for chunk in part for word in chunk)])


def _dashed(options: dict[str, bool]) -> dict[str, bool]:
    return {dash + name: takes_value for name, takes_value in options.items() for dash in ("-", "--")}


def _questions(options: dict[str, bool]) -> list[str]:
    return [name for name in options if name in {"help", "h", "version", "v"}]


def _without_questions(options: dict[str, bool]) -> dict[str, bool]:
    return {name: takes_value for name, takes_value in options.items() if name not in _questions(options)}


RUNC = Words(
    before=_dashed(_without_questions(models.RUNC_GLOBAL)),
    behind=_dashed(_without_questions(models.RUNC_VERBS["run"])),
    whole=_words("--root=/r -log-format=json --log= --help=false -h=0 --debug=T -b=/nope4 --bundle="),
    wrong=_words("---debug -= --unknown -bx --help -v --keep=maybe --device=x --no-pivot=1"),
)
CRUN_BEFORE = (
    {f"--{name.rstrip('=')}": name.endswith("=") for name in models.CRUN_GLOBAL if name != "version"}
    | dict.fromkeys(_words("--log-f --roo --rootl --cg --program-name"), True)
    | {"--sys": False}
)
CRUN = Words(
    before=CRUN_BEFORE,
    behind={f"--{name.rstrip('=')}": name.endswith("=") for name in models.CRUN_CREATE}
    | dict.fromkeys(_words("-b -f --bun --b --pid --pre --cons -db -ddf"), True)
    | dict.fromkeys(_words("--no-s --detach -d"), False),
    whole=_words("--log-f=json --roo=/r -b/nope5 -b=/nope6 -dfc.json --config=config.json --bundle= --bu=/nope4"),
    wrong=_words("--p --l -- -? -v --usage --no-pivot=1 --unknown -x -dx --= --de --d --version"),
)


RUNC_RESTORE = Words(
    before=_dashed(_without_questions(models.RUNC_GLOBAL)),
    behind=_dashed(_without_questions(models.RUNC_RESTORE)),
    whole=_words("--root=/r --log= --help=false -b=/nope4 --bundle= --image-path=i --lazy-pages=false"),
    wrong=_words("---debug --unknown -bx --help -v --keep --device=x --preserve-fds=1"),
)
RUNC_EXEC = Words(
    before=_dashed(_without_questions(models.RUNC_GLOBAL)),
    behind=_dashed(_without_questions(models.RUNC_EXEC)),
    whole=_words("--root=/r --log= --process=/p -p=/q -e=A=b --process= --tty=false -u=0:0 --preserve-fds=2"),
    wrong=_words("---debug --unknown -px --help -v --bundle --device=x -td"),
)
CRUN_RESTORE = Words(
    before=CRUN_BEFORE,
    behind={f"--{name.rstrip('=')}": name.endswith("=") for name in models.CRUN_RESTORE}
    | dict.fromkeys(_words("-b --bun --pid --im --w --m -db"), True)
    | dict.fromkeys(_words("--sh --tc --det -d"), False),
    whole=_words("--log-f=json --roo=/r -b/nope5 -b=/nope6 --bundle= --bu=/nope4 --image=i"),
    wrong=_words("--p --l -- -? -v --usage --unknown -x -f -dx --= --de --e --version"),
)
CRUN_EXEC = Words(
    before=CRUN_BEFORE,
    behind={f"--{name}": takes == ":" for name, (_, takes) in models.CRUN_EXEC.items() if name not in {"help", "usage"}}
    | dict.fromkeys(_words("-p -u -e -c -dp -de --proc --process-l --e --us --cw --ca --pid"), True)
    | dict.fromkeys(_words("-t -d -dt --tt --no --det"), False),
    whole=_words("--process=/p --tty=/t -t/t -dtp -p/q -p=/q --proc=/p -eA=b -dp/q --process= --pre=1"),
    wrong=_words("--p --pro --c -- -? -v --usage --unknown -x -dx --= --us --no-new=1 -b/b"),
)


RUNC_UPDATE = Words(
    before=_dashed(_without_questions(models.RUNC_GLOBAL)),
    behind=_dashed(_without_questions(models.RUNC_UPDATE)),
    whole=_words("--root=/r --resources=- -r=/f --resources= --memory=1 --memory-swap=-1 --help=false"),
    wrong=_words("---debug --unknown -r/f --help -v --bundle --device=x"),
)
CRUN_UPDATE = Words(
    before=CRUN_BEFORE,
    behind={f"--{name}": True for name in models.CRUN_UPDATE} | dict.fromkeys(_words("-r --res --r --bl --pi"), True),
    whole=_words("--resources=- -r/f -r=/f --res=/f --resources= --memory=1 --memory-s=-1"),
    wrong=_words("--mem --c -- -? -v --usage --unknown -x --= -b/b"),
)


def agree(argv: list[str], runtime: str, accepted: models.Accepted | None) -> None:
    """What the model's runtime accepts, the C grammar reads in the same way."""
    if accepted is None:
        return
    call = calls.parse_call(argv, runtime)
    assert (call.verb, call.at, call.unknown) == (accepted.verb, accepted.at, "")
    said = accepted.values
    assert call.injects == (accepted.verb not in {"exec", "update"})
    assert call.process == said.get("process", "")
    assert call.resources == said.get("resources", "")
    assert call.bundle == said.get("bundle", "")
    assert call.id == accepted.id
    assert call.root == said.get("root", "")
    assert call.log == said.get("log", "")
    assert call.log_format == said.get("log-format", "")
    assert call.config == ("" if said.get("config") == "config.json" else said.get("config", ""))


@settings(max_examples=500, deadline=None)
@given(st.data(), st.sampled_from(["runc", "crun"]), st.sampled_from([["--device", "a/b=c"], ["--device=a/b=c"]]))
def test_a_device_in_front_of_the_verb_changes_nothing_else(data: st.DataObject, runtime: str, ours: list[str]) -> None:
    """At the beginning, and right before the verb where no -- has ended the options."""
    model, words = (models.runc, RUNC) if runtime == "runc" else (models.crun, CRUN)
    argv = data.draw(words.command_lines("create", "run"))
    accepted = model(argv)
    if accepted is None:
        return
    without = calls.parse_call(argv, runtime)
    for place in {1, accepted.at} if argv[accepted.at - 1] != "--" else {1}:
        call = calls.parse_call([*argv[:place], *ours, *argv[place:]], runtime)
        assert call.devices == ["a/b=c", *without.devices]
        for name in ("argv", "verb", "bundle", "config", "id", "root", "log", "log_format", "injects", "unknown"):
            assert getattr(call, name) == getattr(without, name), name


@settings(max_examples=2000, deadline=None)
@given(RUNC.command_lines("create", "run"))
@example(["r", "create", "--bundle", "--", "x"])
@example(["r", "--log", "create", "run", "x", "-b=/nope4"])
def test_the_grammar_agrees_with_the_model_of_runc(argv: list[str]) -> None:
    agree(argv, "runc", models.runc(argv))


@settings(max_examples=2000, deadline=None)
@given(CRUN.command_lines("create", "run"))
@example(["r", "--log-f", "json", "run", "-db/nope5", "x"])
def test_the_grammar_agrees_with_the_model_of_crun(argv: list[str]) -> None:
    agree(argv, "crun", models.crun(argv))


@settings(max_examples=1000, deadline=None)
@given(RUNC_RESTORE.command_lines("restore"), CRUN_RESTORE.command_lines("restore"))
def test_the_grammar_agrees_with_the_models_of_restore(for_runc: list[str], for_crun: list[str]) -> None:
    agree(for_runc, "runc", models.runc(for_runc))
    agree(for_crun, "crun", models.crun(for_crun))


@settings(max_examples=1000, deadline=None)
@given(RUNC_UPDATE.command_lines("update"), CRUN_UPDATE.command_lines("update"))
@example(["r", "update", "--memory", "-r", "x"], ["r", "update", "--memory", "-r", "x"])
def test_the_grammar_agrees_with_the_models_of_update(for_runc: list[str], for_crun: list[str]) -> None:
    agree(for_runc, "runc", models.runc(for_runc))
    agree(for_crun, "crun", models.crun(for_crun))


@settings(max_examples=2000, deadline=None)
@given(RUNC_EXEC.command_lines("exec"), CRUN_EXEC.command_lines("exec"))
@example(["r", "exec", "--process", "--", "x"], ["r", "exec", "-dtp", "--proc", "/p", "x"])
@example(["r", "exec", "-t", "x", "-p", "/p"], ["r", "exec", "-t", "x", "-p", "/p"])
def test_the_grammar_agrees_with_the_models_of_exec(for_runc: list[str], for_crun: list[str]) -> None:
    agree(for_runc, "runc", models.runc(for_runc))
    agree(for_crun, "crun", models.crun(for_crun))


@pytest.mark.parametrize(
    ("runtime", "line"),
    [("runc", "r exec -p /p x"), ("runc", "r exec x ls"), ("crun", "r exec -dp/p x"), ("crun", "r restore -b b x")],
)
def test_the_models_accept_what_is_right(runtime: str, line: str) -> None:
    """Without this the tests above could pass by never comparing anything."""
    accepted = {"runc": models.runc, "crun": models.crun}[runtime](line.split())
    assert accepted
    assert accepted.id == "x"


def _bundle_opened(runtime: str, argv: list[str], cwd: Path) -> str | None:
    """Which missing bundle the real runtime complains about, None when it complains about something else."""
    done = subprocess.run(
        [runtime, *argv[1:]], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    found = re.search(
        r"(?:chdir|realpath) [`]?(.*?)(?:: no such file|` failed: No such file)", done.stdout + done.stderr
    )
    return found[1] if found else None


def bundle_calls(words: list[str], verb_words: list[str], *verbs: str) -> st.SearchStrategy[list[str]]:
    """Command lines that a real runtime can be given: none of them gets beyond a bundle that is not there."""
    before = st.lists(st.sampled_from(words), max_size=2)
    bundle = st.sampled_from(["/nope1", "/nope2"])
    named = st.sampled_from([w for w in verb_words if w.startswith(("--b", "-b", "-db"))])
    behind = st.lists(st.sampled_from([*verb_words, "x", "--"]), max_size=3)
    parts = st.tuples(before, st.sampled_from(verbs), behind, named, bundle, behind)
    return parts.map(
        lambda p: ["r", "--root", "r", *p[0], p[1], *p[2], p[3], *([] if "/" in p[3] else [p[4]]), *p[5], "id"]
    )


RUNC_SAFE = _words("--debug -debug=false --log-format=json --systemd-cgroup=false --criu=x --rootless=auto --help=0")
RUNC_VERB_SAFE = _words("--bundle -bundle -b --b -b=/nope3 --bundle=/nope4 --no-pivot --pid-file=p --preserve-fds=1")
RUNC_RESTORE_SAFE = _words(
    "--bundle -bundle -b --b -b=/nope3 --bundle=/nope4 --image-path=i --work-path w --empty-ns ipc -d"
)
CRUN_SAFE = _words("--debug --log-f=json --sys --cgroup-m=disabled --rootless=x --log-format=text")
CRUN_VERB_SAFE = _words("--bundle --bun -b -db --bu=/nope3 -b/nope4 --no-pivot --pid=p --pre=1 -fconfig.json")


@pytest.mark.engine
@settings(max_examples=60, deadline=None)
@given(argv=bundle_calls(RUNC_SAFE, RUNC_VERB_SAFE, "create", "run"))
def test_real_runc_opens_the_bundle_that_the_grammar_names(
    argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = _bundle_opened("runc", argv, tmp_path_factory.getbasetemp())
    if opened is not None:
        assert calls.parse_call(argv, "runc").bundle == opened


@pytest.mark.engine
@settings(max_examples=60, deadline=None)
@given(argv=bundle_calls(CRUN_SAFE, CRUN_VERB_SAFE, "create", "run"))
def test_real_crun_opens_the_bundle_that_the_grammar_names(
    argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = _bundle_opened("crun", argv, tmp_path_factory.getbasetemp())
    if opened is not None:
        assert calls.parse_call(argv, "crun").bundle == opened


@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_the_real_runtime_names_the_bundle_it_misses(runtime: str, tmp_path: Path) -> None:
    """Without this the two tests above could pass by never understanding an error."""
    assert _bundle_opened(runtime, ["r", "--root", "r", "create", "--bundle", "/nope1", "id"], tmp_path) == "/nope1"


@pytest.mark.engine
@settings(max_examples=40, deadline=None)
@given(argv=bundle_calls(RUNC_SAFE, RUNC_RESTORE_SAFE, "restore"))
def test_real_runc_restores_from_the_bundle_that_the_grammar_names(
    argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    opened = _bundle_opened("runc", argv, tmp_path_factory.getbasetemp())
    if opened is not None:
        assert calls.parse_call(argv, "runc").bundle == opened


# --- which container an exec is for -------------------------------------------------------------------------------

# ids of containers that real runc can be asked for; what stands in their state tells which one it read
ASKED = ["x", "id", "CAP", "p", "ls"]


def _exec_container(runtime: str, argv: list[str], cwd: Path) -> str | None:
    """The container that the real runtime looks for, None when it refuses the command line, or finds another."""
    for number, name in enumerate(ASKED):
        (cwd / "r" / name).mkdir(parents=True, exist_ok=True)
        (cwd / "r" / name / "state.json").write_text("ABCDE"[number])
    done = subprocess.run(
        [runtime, *argv[1:]], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    if found := re.search(r"invalid character '(.)'", said):
        return ASKED["ABCDE".index(found[1])]
    found = re.search(r"error opening file `(?:.*/)?r/(.*)/status`", said)
    return found[1] if found else None


def exec_calls(words: list[str], verb_words: list[str]) -> st.SearchStrategy[list[str]]:
    """Command lines of exec for containers that do not run."""
    before = st.lists(st.sampled_from(words), max_size=2)
    behind = st.lists(st.sampled_from([*verb_words, *verb_words, *ASKED, "--"]), max_size=6)
    return st.tuples(before, behind).map(lambda p: ["r", "--root", "r", *p[0], "exec", *p[1], "id", "ls"])


RUNC_EXEC_SAFE = _words("-p --process -process=f -e -env=A=b -t --tty -d -u --cwd -g --no-new-privs --cap -c=CAP")
CRUN_EXEC_SAFE = _words("-p --proc --process=f -e -eA=b -t -tp --tty --tty=x -d -dp -u --cw -c --no-new --cap=CAP")


@pytest.mark.engine
@settings(max_examples=100, deadline=None)
@given(argv=exec_calls(RUNC_SAFE, RUNC_EXEC_SAFE))
def test_real_runc_looks_for_the_container_that_the_grammar_names(
    argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    looked = _exec_container("runc", argv, tmp_path_factory.getbasetemp())
    if looked is not None:
        assert calls.parse_call(argv, "runc").id == looked


@pytest.mark.engine
@settings(max_examples=100, deadline=None)
@given(argv=exec_calls(CRUN_SAFE, CRUN_EXEC_SAFE))
def test_real_crun_looks_for_the_container_that_the_grammar_names(
    argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    looked = _exec_container("crun", argv, tmp_path_factory.getbasetemp())
    if looked is not None:
        assert calls.parse_call(argv, "crun").id == looked


@pytest.mark.engine
@pytest.mark.parametrize("runtime", ["runc", "crun"])
def test_the_real_runtime_tells_which_container_it_looks_for(runtime: str, tmp_path: Path) -> None:
    argv = ["r", "--root", "r", "exec", "-p", "p", "CAP"]
    assert _exec_container(runtime, argv, tmp_path) == calls.parse_call(argv, runtime).id == "CAP"
