"""What the launcher found out about the command line: its verdict, as Python sees it. HOT.

The grammar of runc and crun lives once, in C (native/grammar.c). The launcher hands its result over as
`KEY=VALUE` words, then `--`, then the command line for the low-level runtime, from which our options are gone.
"""

from __future__ import annotations


class Invocation:
    """One call of the runtime.

    Attributes:
        low: path of the low-level runtime to become.
        name: last part of the launcher's argv[0], for example "shim-crun".
        launcher: path of the launcher.
        verb: "create", "run", "restore", "exec" or "update".
        bundle: the bundle directory, "." when the command line names none.
        config: path of the config.json.
        id: the container's id, "" when missing.
        root: value of --root, "" when not given.
        key: names the container's record (shim.create.record), "" when the launcher gave none.
        process: value of exec's --process, "" when not given.
        resources: value of update's --resources, "" when not given.
        log: value of --log, "" when not given.
        log_format: "text" or "json".
        devices: values of --device, in order.
        unknown: an option in front of the verb that no table knows, else "".
        may_ask: False when the launcher found no text by which a source that it knows asks; only the configuration can
            know another then.
        ignored: names of signals (without SIG) that were ignored when the launcher started.
        argv: what the low-level runtime gets, argv[0] included.
    """

    __slots__ = (
        "argv",
        "bundle",
        "config",
        "devices",
        "id",
        "ignored",
        "key",
        "launcher",
        "log",
        "log_format",
        "low",
        "may_ask",
        "name",
        "process",
        "resources",
        "root",
        "unknown",
        "verb",
    )

    def __init__(self, words: list[str]) -> None:
        """Read the launcher's words.

        Arguments:
            words: `KEY=VALUE` …, `--`, command line of the low-level runtime.
        """
        end = words.index("--")
        said: dict[str, str] = {}
        self.devices: list[str] = []
        for word in words[:end]:
            key, _, value = word.partition("=")
            if key == "device":
                self.devices.append(value)
            else:
                said[key] = value
        self.argv = words[end + 1 :]
        self.low = said["low"]
        self.name = said["name"]
        self.launcher = said["self"]
        self.verb = said["verb"]
        self.bundle = said.get("bundle", ".")
        self.id = said.get("id", "")
        self.root = said.get("root", "")
        self.key = said.get("key", "")
        self.process = said.get("process", "")
        self.resources = said.get("resources", "")
        self.log = said.get("log", "")
        self.log_format = said.get("log-format", "text")
        self.unknown = said.get("unknown", "")
        self.may_ask = said.get("asks", "1") != "0"
        self.ignored = [name for name in said.get("sigign", "").split(",") if name]
        # crun's --config: a plain "config.json" means the bundle's, anything else is a path of its own
        named = said.get("config", "config.json")
        self.config = f"{self.bundle}/config.json" if named == "config.json" else named
