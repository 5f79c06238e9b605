"""The command `shim` itself: the nouns, and for shells also the verbs of the low-level runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from shim.cli.completion import OF_BUNDLE, VERBS, WITH_DEVICES, beginning, folders
from shim.cli.lazy import LazyGroup

if TYPE_CHECKING:
    from shim.cli.completion import Items


class WithVerbs(LazyGroup):
    """Our commands; for completion alone also the verbs of the low-level runtime, which the launcher passes on."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of a name; for a verb with the options that shim adds to it."""
        command = super().get_command(context, name)
        if command is not None or not context.resilient_parsing or name not in VERBS:
            return command
        from shim.cli.cdi import complete_devices  # late: only the completion of a verb needs it

        device = click.Option(["--device"], multiple=True, shell_complete=complete_devices)
        bundle = click.Option(["--bundle", "-b"], shell_complete=folders)
        options = [device] * (name in WITH_DEVICES) + [bundle] * (name in OF_BUNDLE)
        return click.Command(name, params=[*options], context_settings={"ignore_unknown_options": True})

    def shell_complete(self, context: click.Context, incomplete: str) -> Items:
        """Commands and verbs."""
        return [*super().shell_complete(context, incomplete), *beginning(VERBS if incomplete else (), incomplete)]
