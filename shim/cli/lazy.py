"""Groups whose commands are loaded when they are used, so that a command pays for its own modules alone."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """A group of commands.

    Arguments:
        lazy: name of a command -> "MODULE:NAME" of it; others are added as to any group.
    """

    def __init__(self, *arguments: Any, lazy: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._lazy = dict(lazy or {})

    def list_commands(self, context: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*super().list_commands(context), *self._lazy})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The command of a name, loaded now; None when there is none."""
        if name not in self._lazy:
            return super().get_command(context, name)
        module, _, attribute = self._lazy[name].partition(":")
        return cast("click.Command", getattr(import_module(module), attribute))
