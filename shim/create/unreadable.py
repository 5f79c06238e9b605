"""What asks for a device while the configuration cannot be read. Cold.

Which sources count is unknown then. A container that may have asked must not start without its device, so every source
counts, for every container: annotations, variables and mounts are read by the rules that hold where they are "any"
(shim.create.request, shim.create.image_requests), so `void` or an empty value is no request here either. A container
in which none of them asks starts.

The names that a configuration adds (annotation prefixes, variables) are unknown as well. They are taken from the good
values of the file, where it is trusted and valid TOML, and from the index of this boot, which holds the configuration
that counted last. Names known from neither ask for nothing.
"""

from __future__ import annotations

import posix

from shim.base.findings import CdiError
from shim.cdi import index
from shim.config import location
from shim.config.settings import ANY, Settings
from shim.create import image_requests, request
from shim.host import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.create.world_types import Judging


def widest(error: Exception, look: Judging) -> Settings:
    """Settings in which every source counts, with all names that are known to ask.

    Arguments:
        error: why the configuration does not count; of shim.config.reader it may hold the good values.
        look: answers what lies at a path.
    Returns:
        the configuration itself when nothing is wrong with it, so that the error is about the specs.
    """
    try:
        return location.load(trust=look.trust(rootful=identity.is_rootful(), user=posix.geteuid()), look=look)
    except Exception:  # noqa: S110  # it is the case in which every source counts
        pass
    good: Settings | None = getattr(error, "settings", None)
    every = [settings for settings in (good, _last(look)) if settings]
    widest = Settings()
    widest.environment = widest.mounts = widest.pod_annotations = widest.podman_annotations = ANY
    for settings in every:
        widest.annotation_prefixes = tuple(dict.fromkeys((*widest.annotation_prefixes, *settings.annotation_prefixes)))
        # a swarm variable makes others not count, which may be just what is wrong: here it only asks as well
        widest.variables = {**settings.variables, **settings.swarm_variables, **widest.variables}
    widest.enforce = any(settings.enforce for settings in every)
    if every:
        widest.default_kind, widest.log_file = every[0].default_kind, every[0].log_file
    return widest


def requests(annotations: dict[str, Any], options: Iterable[str], widest: Settings, error: CdiError) -> dict[str, str]:
    """What the engine's client asks for.

    Arguments:
        annotations: those that count (shim.create.annotation_requests).
        options: values of --device.
        widest: of widest().
        error: why the configuration does not count.
    Returns:
        qualified name -> source, empty when nothing asks.
    Raises:
        CdiError: `error`, when something asks in a form that names no device.
    """
    try:
        return request.ask(annotations, options, widest.annotation_prefixes, widest.default_kind)
    except CdiError:
        raise error from None


def requests_of_image(
    config: dict[str, Any], wanted: dict[str, str], widest: Settings, error: CdiError
) -> dict[str, str]:
    """What the sources ask for that an image can write to.

    Arguments:
        config: the decoded config.json, of no pod's sandbox.
        wanted: of requests().
        widest, error: as there; so are the result and what is raised.
    """
    try:
        return image_requests.ask(config, widest, wanted).requests
    except CdiError:
        raise error from None


def _last(look: Judging) -> Settings | None:
    """The settings that counted last in this boot, None when there is no index."""
    path = location.index_path(location.candidates(look=look)[0], look)
    value = index.last_settings(path, look) if path else None
    try:
        return Settings.from_json(value) if value else None
    except ValueError:
        return None
