"""The manual pages, from the help texts of the commands: shown by `shim help`, `man shim`, `man shim-cdi`.

The page shim(1) has what holds for all commands, and their list; each noun has a page of its own, with all its verbs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_TAIL = r"""
.SH ENVIRONMENT
.TP
.B SHIM_CONFIG
The configuration file, in the place of those below FILES.
.TP
.B XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_RUNTIME_DIR, HOME
Without root: where configuration, log and records lie. Where the first two are not set they are ~/.config and
~/.local/state.
.TP
.B PATH
Searched for the low\-level runtime after the directories for programs.
.TP
.B NO_COLOR
Set to anything: no colours on a terminal. Pipes and files never get any.
.TP
.B COLUMNS
Width to which long lines are folded, in the place of the terminal's.
.SH FILES
.TP
.I /etc/cdi, /var/run/cdi
CDI specs, the later directory the more important.
.TP
.I /etc/shim/config.toml, ~/.config/shim/config.toml
The configuration; none is needed. The second counts without root only.
.TP
.I /etc/nvidia\-container\-runtime/config.toml
Where there is no other: its lines that allow or forbid a source count.
.TP
.I /etc/shim/low\-level/NAME
A symbolic link to the low\-level runtime that stands behind the launcher called NAME.
.TP
.I /etc/shim/grants.json
Which subject may use which device; shim grant writes it.
.TP
.I /var/log/shim/audit.jsonl
Every change of the grants.
.TP
.I /var/log/shim.log, ~/.local/state/shim/log
One line for each create that injected, warned or failed. The second without root.
.TP
.I /run/shim, $XDG_RUNTIME_DIR/shim
Index of the specs and records of containers, for exec, update and explain. May be deleted: it is made anew, but exec
and update of running containers lack what their records held.
.TP
.I /var/lib/shim
What configure found in the files of engines, for remove; versions of podman's programs.
.TP
.I PREFIX/share/doc/cdi\-shim
The documents on configuration and findings.
.SH EXIT STATUS
0 done, 1 failed or findings of level ERROR, 2 wrong usage; in place of runc or crun, that runtime's own.
.SH SEE ALSO
.BR runc (8),
.BR crun (1)
"""


def _roff(text: str) -> str:
    """Text as roff takes it literally."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in {".", "'"} else line for line in escaped.split("\n"))


def _paragraphs(text: str) -> Iterator[str]:
    """A help text; a paragraph that click leaves as it is (a line with \\b before it) stays as it is."""
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0].strip() == "\b":
            yield ".PP\n.nf\n" + _roff("\n".join(lines[1:])) + "\n.fi"
        else:
            yield ".PP\n" + _roff(" ".join(line.strip() for line in lines))


def _options(context: click.Context, command: click.Command) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and record[1]:
            yield f".TP\n.B {_roff(record[0])}\n{_roff(record[1])}"


def _commands(context: click.Context, command: click.Command) -> Iterator[str]:
    """A command and those below it, each with its usage, help and options."""
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_roff(context.command_path)} {_roff(usage)}"
    yield from _paragraphs((command.help or "").strip())
    yield from _options(context, command)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _commands(click.Context(below, info_name=name, parent=context), below)


def _head(name: str, summary: str, version: str) -> str:
    """Title and name of a page; NAME is what `man -k` and `apropos` read."""
    title = f'.TH {_roff(name.upper())} 1 "" "shim {version}"'
    return f"{title}\n.SH NAME\n{_roff(name)} \\- {_roff(summary)}"


def _summary(command: click.Command) -> str:
    return (command.help or "").partition("\n\n")[0].replace("\n", " ").rstrip(".")


def pages(command: click.Group, version: str) -> dict[str, str]:
    """The manual pages of a command and of each of its nouns.

    Args:
        command: The group of all commands.
        version: That of shim, in the footer of each page.

    Returns:
        Name of the file in man1 -> text in roff's macros man(7). Hidden commands have no page.
    """
    context = click.Context(command, info_name="shim", **command.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    nouns = {name: noun for name in command.list_commands(context) if (noun := command.get_command(context, name))}
    nouns = {name: noun for name, noun in nouns.items() if not noun.hidden}
    listed = [f".TP\n.BR shim\\-{_roff(name)} (1)\n{_roff(_summary(noun))}." for name, noun in nouns.items()]
    main = [
        _head("shim", _summary(command), version),
        f".SH SYNOPSIS\n.B shim\n{_roff(usage)}\n.SH DESCRIPTION",
        *_paragraphs((command.help or "").strip()),
        ".SH OPTIONS",
        *_options(context, command),
        ".SH COMMANDS",
        *listed,
    ]
    texts = {"shim.1": "\n".join(main) + _TAIL}
    for name, noun in nouns.items():
        below = click.Context(noun, info_name=name, parent=context)
        body = [_head(f"shim-{name}", _summary(noun), version), ".SH COMMANDS", *_commands(below, noun)]
        texts[f"shim-{name}.1"] = "\n".join(body) + "\n.SH SEE ALSO\n.BR shim (1)\n"
    return texts
