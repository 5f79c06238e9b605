"""`shim completion`, and the words for shells: devices, kinds, files, containers, verbs of the low-level runtime.

A shell runs shim with _SHIM_COMPLETE set, and click prints words for the position of the cursor. This module adds the
words that click does not know (files, devices of the specs), and rules for bash, which ends words at `=` and `:`, so
that VENDOR/CLASS=NAME is three of its words.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from shim.base.findings import TABLE, CdiError
from shim.create import record_files, record_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shim.cdi.types import Served

    Items = list[CompletionItem[str]]
    Complete = Callable[[click.Context, click.Parameter, str], Items]

VARIABLE = "_SHIM_COMPLETE"  # set by the scripts below; click reads it
_SHELLS = ("bash", "zsh", "fish")
WITH_DEVICES = ("create", "run")  # verbs of runc and crun, to which shim adds --device
OF_BUNDLE = (*WITH_DEVICES, "restore", "spec")  # verbs with an option --bundle
_OTHERS = "checkpoint delete events exec features kill list mounts pause ps restore resume spec start state update"
VERBS = (*WITH_DEVICES, *_OTHERS.split())

# Readline's word begins behind the last `=` or `:`, and a completion replaces that word alone.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}" type value before
    before="${line##*[[:space:]]}"
    before="${before%%"${before##*[=:]}"}"
    [[ $before == -*=* ]] && before="${before#*=}"
    [[ $COMP_WORDBREAKS == *=* ]] || before=""
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$before"}") ;;
        esac
    done < <(SHIM_LINE="$line" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """bash, with the words of the line itself instead of the words that bash splits it into."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("SHIM_LINE", "")
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1:].isspace() else ""
        return words[1:], incomplete

    def source(self) -> str:
        return self.source_template % self.source_vars()  # without click's check of the version of bash


add_completion_class(_Bash)


def source(command: click.Command, shell: str) -> str:
    """The script that a shell reads for completion.

    Arguments:
        command: the command line.
        shell: bash, zsh or fish.
    """
    kind = click.shell_completion.get_completion_class(shell)
    if kind is None:
        raise ValueError(f"there is no completion for {shell}")
    return kind(command, {}, "shim", VARIABLE).source()


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands, options, devices and files.

    An installation has it in place already; this is for a shim in a directory of one's own.

    \b
    Examples:
      source <(shim completion bash)
      shim completion fish > ~/.config/fish/completions/shim.fish
    """
    click.echo(source(context.find_root().command, shell), nl=False)


# --- the words --------------------------------------------------------------------------------------------------------


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Files and directories, by the shell itself."""
    return [CompletionItem(incomplete, type="file")]


def folders(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Directories, by the shell itself."""
    return [CompletionItem(incomplete, type="dir")]


def from_specs(words: Callable[[Served], Iterable[str]], read: Callable[[tuple[str, ...]], Served]) -> Complete:
    """Words from specs: of the directories of --spec-dir if given, else of the configuration.

    Arguments:
        words: gives names for a set of devices.
        read: reads the devices of the given directories, or of the configuration.
    """

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
        try:
            devices = read(context.params.get("spec_dirs") or ())
        except CdiError:  # a configuration with a fault: the command itself reports it
            return []
        return beginning(words(devices), incomplete)

    return complete


def containers(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """Ids of the containers that have a record."""
    return beginning((entry["id"] for entry in record_reader.entries(record_files.directory())), incomplete)


def topics(context: click.Context, _parameter: click.Parameter, incomplete: str) -> Items:
    """The arguments of `shim help`: commands, subcommands of the preceding words, and ids of findings."""
    command: click.Command | None = context.find_root().command
    for word in context.params.get("command") or ():
        command = command.get_command(context, word) if isinstance(command, click.Group) else None
    below = command.list_commands(context) if isinstance(command, click.Group) else []
    ids = TABLE if not context.params.get("command") and incomplete[:1].isupper() else ()
    return beginning([*below, *ids], incomplete)


def beginning(words: Iterable[str], incomplete: str) -> Items:
    """The words that begin with what is typed, as items for the shell."""
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
