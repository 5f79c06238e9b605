"""crictl in so far as docs/quickstart.md calls it: the same calls of the CRI, made by curl. Run inside of a sandbox.

usage: crictl.py pull IMAGE | runp --runtime NAME POD.json | create POD CONTAINER.json POD.json
       crictl.py start ID | logs ID | rmp -f POD
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from engines.harness.cri import Message, decode, encode

SOCKET = "/run/containerd/containerd.sock"
LOGS = Path("/run/crictl-logs")  # id of a container -> the file of its output


def call(service: str, method: str, request: Message) -> dict[int, list[int | bytes]]:
    """One unary call; exits with the message of a refusal."""
    message = encode(request)
    with tempfile.NamedTemporaryFile() as body, tempfile.NamedTemporaryFile() as headers:
        body.write(b"\0" + len(message).to_bytes(4, "big") + message)
        body.flush()
        command = ["curl", "--silent", "--http2-prior-knowledge", "--unix-socket", SOCKET]
        command += ["--header", "content-type: application/grpc", "--header", "te: trailers"]
        command += ["--data-binary", f"@{body.name}", "--dump-header", headers.name]
        answer = subprocess.run(
            [*command, f"http://localhost/runtime.v1.{service}/{method}"], capture_output=True, check=False
        )
        fields = Path(headers.name).read_text(encoding="ascii")
    if "grpc-status: 0" not in fields:
        sys.exit(fields + answer.stderr.decode())
    return decode(answer.stdout[5:])


def load(file: str) -> Any:
    """A document of the block."""
    return json.loads(Path(file).read_text(encoding="utf-8"))


def pairs(values: dict[str, str]) -> list[Any]:
    """A map of strings."""
    return [{1: key, 2: value} for key, value in values.items()]


def pod_config(pod: Any) -> Message:
    """PodSandboxConfig."""
    metadata = pod["metadata"]
    network = pod["linux"]["security_context"]["namespace_options"]["network"]
    return {
        1: {1: metadata["name"], 2: metadata["uid"], 3: metadata["namespace"]},
        3: pod["log_directory"],
        8: {2: {1: {1: network}}},
    }


def first(answer: dict[int, list[int | bytes]]) -> str:
    """The id in an answer."""
    value = answer[1][0]
    assert isinstance(value, bytes)
    return value.decode()


def show(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(verb: str, *words: str) -> None:
    """Do what crictl does for a verb."""
    if verb == "pull":
        if not call("ImageService", "ImageStatus", {1: {1: words[0]}}):
            sys.exit(f"{words[0]} is not here, and there is no network")
    elif verb == "runp":
        show(first(call("RuntimeService", "RunPodSandbox", {1: pod_config(load(words[2])), 2: words[1]})))
    elif verb == "create":
        container, pod = load(words[1]), load(words[2])
        config: Message = {
            1: {1: container["metadata"]["name"]},
            2: {1: container["image"]["image"]},
            3: list(container["command"]),
            10: pairs(container["annotations"]),
            11: container["log_path"],
            15: {},
        }
        made = first(call("RuntimeService", "CreateContainer", {1: words[0], 2: config, 3: pod_config(pod)}))
        LOGS.mkdir(exist_ok=True)
        (LOGS / made).write_text(f"{pod['log_directory']}/{container['log_path']}", encoding="utf-8")
        show(made)
    elif verb == "start":
        call("RuntimeService", "StartContainer", {1: words[0]})
    elif verb == "logs":
        log = Path((LOGS / words[0]).read_text(encoding="utf-8"))
        for line in log.read_text(encoding="utf-8").splitlines():
            show(line.split(" ", 3)[3])
    elif verb == "rmp":
        call("RuntimeService", "StopPodSandbox", {1: words[1]})
        call("RuntimeService", "RemovePodSandbox", {1: words[1]})
    else:
        sys.exit(f"no block calls crictl {verb}")


if __name__ == "__main__":
    main(*sys.argv[1:])
