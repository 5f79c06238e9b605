"""The command line: a thin file for each noun, over the library. The only package that prints.

Not on the create path, so it may import click and rich. Exit status of all commands: 0 done, 1 failed or findings of
level ERROR, 2 usage.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from shim.base.findings import CdiError
from shim.base.paths import reason
from shim.cli import completion
from shim.cli.output import show_findings
from shim.cli.verbs import WithVerbs

# A new noun is a module and a line here; native/commands.c knows the names, too
_COMMANDS = {
    "cdi": "shim.cli.cdi:cdi",
    "completion": "shim.cli.completion:completion",
    "config": "shim.cli.config:config",
    "device": "shim.cli.device:device",
    "doctor": "shim.cli.doctor:command",
    "explain": "shim.cli.explain:explain",
    "gate": "shim.cli.gate:gate",
    "grant": "shim.cli.grant:grant",
    "hook": "shim.cli.hook:hook",
    "node": "shim.cli.node:node",
    "runtime": "shim.cli.runtime:runtime",
    "system": "shim.cli.system:system",
    "version": "shim.cli.version:version",
}
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=WithVerbs, lazy=_COMMANDS, context_settings=_CONTEXT, no_args_is_help=True)
def shim() -> None:
    """Put any device into any container, and say what was done and why.

    In place of runc or crun:  shim [runtime options] create|run|… , with --device KIND=NAME on create and run, or in
    front of any verb.
    Everything else is a command of its own, listed below.

    \b
    Examples:
      shim cdi list
      shim run --device nvidia.com/gpu=0 --bundle /tmp/b my-container
    """


@shim.command("help", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, metavar="[COMMAND]…|FINDING", shell_complete=completion.topics)
@click.pass_context
def help_command(context: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of a command, what shim adds to a verb of the low-level runtime, or what a finding's id means.

    \b
    Examples:
      shim help cdi list
      shim help run
      shim help DEVICE_UNKNOWN
    """
    if len(command) == 1 and command[0].isupper():
        from shim.cli import finding_help  # late: no other command reads the documents

        click.echo(finding_help.text(command[0]), nl=False)
        return
    if command and command[0] in completion.VERBS:
        click.echo(_verb_help(command[0]), nl=False)
        return
    # parsed anew with --help, so that the text is the same as from the command itself
    if context.parent is not None:
        shim.main([*command, "--help"], prog_name="shim", standalone_mode=False)


_KEEPS = {
    "create": "The bundle's config.json keeps it for later calls.",
    "run": "It holds for this run: the next one begins from the bundle's config.json as it was.",
}


def _verb_help(verb: str) -> str:
    if verb not in completion.WITH_DEVICES:
        return f"{verb} is a verb of the low-level runtime, to which shim adds nothing: see `shim {verb} --help`.\n"
    return f"""\
Usage: shim [runtime options] {verb} [--device KIND=NAME]... [options] CONTAINER

  {verb} is a verb of the low-level runtime; `shim {verb} --help` shows its options. shim adds one:

  --device KIND=NAME  Inject this device; repeatable, also in front of the verb. `shim cdi list` shows the names.
                      {_KEEPS[verb]}

Example:
  shim {verb} --device nvidia.com/gpu=0 --bundle /tmp/bundle my-container
"""


def main(arguments: list[str]) -> NoReturn:
    """Run a command and exit.

    Arguments:
        arguments: the command line, argv[0] first.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the stream was closed when shim was started
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 (it stays open)
    try:
        shim.main(arguments[1:], prog_name="shim", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(1)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except CdiError as error:
        show_findings(error.findings)
        sys.exit(1)
    except BrokenPipeError:  # `shim cdi list | head`
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # commands report errors of their files themselves, so this error is of standard output
        what = f"{error.filename} cannot be used" if error.filename else "the output cannot be written"
        click.echo(f"Error: {what}: {reason(error)}", err=True)
        os._exit(1)  # the interpreter would flush again, and print an error
    sys.exit(0)
