"""Invocation: one call of the runtime, as the launcher has read it. HOT.

The grammar of runc and crun is implemented once, in C (native/grammar.c). The launcher hands its result over as
`KEY=VALUE` words, then `--`, then the command line for the low-level runtime, from which our options are gone.
"""

from __future__ import annotations

# The texts of the command line that the launcher hands over, which are the rows of `call_texts` in native/grammar.c:
# word -> the value without it. Each is an attribute of Invocation.
TEXTS = {
    "verb": "",
    "bundle": ".",
    "config": "",
    "process": "",
    "resources": "",
    "id": "",
    "root": "",
    "log": "",
    "log-format": "text",
    "unknown": "",
}


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
        unknown: an option in front of the verb that is in no table, else "".
        may_ask: False when the launcher found no text by which a source known to it asks; only the configuration can
            have others then.
        question: the create as the launcher has read it, where it would repeat a decision that is left for it
            (shim.create.answers); "" where it would not.
        answer: name of the file in which the launcher looks for that decision, "" without a question.
        is_repeated: the launcher has repeated a decision; what is left to do is to clean up.
        ignored: names of signals (without SIG) that were ignored when the launcher started.
        argv: what the low-level runtime gets, argv[0] included.
    """

    __slots__ = (
        "answer",
        "argv",
        "bundle",
        "config",
        "devices",
        "id",
        "ignored",
        "is_repeated",
        "key",
        "launcher",
        "log",
        "log_format",
        "low",
        "may_ask",
        "name",
        "process",
        "question",
        "resources",
        "root",
        "unknown",
        "verb",
    )

    verb: str
    bundle: str
    config: str
    process: str
    resources: str
    id: str
    root: str
    log: str
    log_format: str
    unknown: str

    def __init__(self, words: list[str]) -> None:
        """Read the launcher's words.

        Arguments:
            words: `KEY=VALUE` …, `--`, command line of the low-level runtime.
        """
        end = words.index("--")
        given: dict[str, str] = {}
        self.devices: list[str] = []
        for word in words[:end]:
            key, _, value = word.partition("=")
            if key == "device":
                self.devices.append(value)
            else:
                given[key] = value
        self.argv = words[end + 1 :]
        self.low = given["low"]
        self.name = given["name"]
        self.launcher = given["self"]
        self.key = given.get("key", "")
        self.question = given.get("question", "")
        self.answer = given.get("answer", "")
        self.is_repeated = given.get("repeated") == "1"
        self.may_ask = given.get("asks", "1") != "0"
        self.ignored = [name for name in given.get("sigign", "").split(",") if name]
        for key, default in TEXTS.items():
            setattr(self, key.replace("-", "_"), given.get(key, default))
        if not self.config:
            self.config = f"{self.bundle}/config.json"
        elif "/" not in self.config:
            self.config = f"./{self.config}"
