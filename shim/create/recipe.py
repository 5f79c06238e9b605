"""Recipe: which devices a container gets, decided once for create, explain and precreate. HOT, no I/O of its own.

    ask, resolve, rule, edit

`decide` is the only place where these steps are put together. create carries its Decision out, precreate prints it,
explain describes it. Whatever it needs to know of the host it asks the World, so that a decision can be made again from
the answers. Two rules govern every line: a container that asked for nothing never fails because of us, and one that
asked never starts without.

Late imports, each at one line: the sources that an image can write to (where one is switched on, or the configuration
is broken), which annotations count under CRI-O and podman (shim.create.annotation_requests), user namespaces (few
containers have one), network interfaces (few specs move any), the lock of the specs (few machines have one), and the C
core, which reads the command lines of hooks (where a hook may be folded).
"""

from __future__ import annotations

from shim.base.findings import CdiError, Finding, internal
from shim.cdi import plan
from shim.cdi.edits import has_user_namespace
from shim.config.settings import AUTO, KNOWN, OFF, VENDOR_PROGRAMS, Settings
from shim.create import annotation_requests, changes, merge, request, rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from shim.cdi.plan import Block, Plan
    from shim.create.image_requests import ImageRequests
    from shim.create.question import Question
    from shim.create.world import Trace, World

    Json = dict[str, Any]


class Decision:
    """What a container gets, and why: a plain value.

    Attributes:
        settings: the configuration that counts.
        unreadable: why the configuration does not count, None where it does.
        is_sandbox: it is a pod's sandbox, which is left alone.
        requests: qualified name -> what asks for it: "--device", "annotation KEY", "variable NAME", "mount PATH".
        resolved: the plan as the specs have it, None where nothing is asked for or a name cannot be resolved.
        plan: the plan under create's rules, as it is injected; None where nothing is injected.
        edits: what changes in config.json, see shim.create.changes.
        entries: the entries of the plan (shim.create.merge), None where nothing is injected.
        folds: hooks of the plan whose work create may do itself.
        findings: warnings.
        subject: whose grants were asked for, "" where they are not enforced, or nothing asks.
        exclusive: its devices that are granted exclusively, and to be reserved for it (shim.create.holders).
        refusal: why the container must not start, None where it may.
        trace: the questions about the host, with their answers (shim.create.world).
    """

    __slots__ = (
        "edits",
        "entries",
        "exclusive",
        "findings",
        "folds",
        "is_sandbox",
        "plan",
        "refusal",
        "requests",
        "resolved",
        "settings",
        "subject",
        "trace",
        "unreadable",
    )

    def __init__(self, settings: Settings, unreadable: CdiError | None = None) -> None:
        self.settings = settings
        self.unreadable = unreadable
        self.is_sandbox = False
        self.requests: dict[str, str] = {}
        self.resolved: Plan | None = None
        self.plan: Plan | None = None
        self.edits: list[Json] = []
        self.entries: merge.Entries | None = None
        self.folds: list[Json] = []
        self.findings: list[Finding] = []
        self.subject = ""
        self.exclusive: list[str] = []
        self.refusal: CdiError | None = None
        self.trace: Trace = []

    def warn(self, findings: Iterable[Finding]) -> None:
        """Add warnings that are not there yet."""
        known = {(finding.id, str(finding)) for finding in self.findings}
        for finding in findings:
            if (finding.id, str(finding)) not in known:
                known.add((finding.id, str(finding)))
                self.findings.append(finding)


def decide(question: Question, world: World) -> Decision:
    """Decide which devices a container gets.

    Arguments:
        question: the create.
        world: answers what is asked about the host.
    Returns:
        the decision; it is refused where its `refusal` is set.
    """
    config = question.config
    settings, fault = world.settings()
    decision = Decision(settings, fault)
    enforces = settings.enforce and question.rootful
    try:
        if question.fault:
            if question.devices or _may_ask(question, settings):
                raise _config_error(question, question.fault)
            return _judged(decision, question, world)  # the low-level runtime reports what is wrong with its bundle
        is_precreate = question.verb == "precreate"
        annotations = annotation_requests.find(config, question.id, settings, world, precreate=is_precreate)
        decision.is_sandbox = annotations.is_sandbox
        if decision.is_sandbox:
            return _judged(decision, question, world)
        decision.warn(annotations.findings)
        if decision.unreadable:
            from shim.create import unreadable  # late: the configuration is broken

            fault = decision.unreadable
            decision.requests = unreadable.requests(annotations.requests, question.devices, settings, fault)
            decision.requests |= unreadable.requests_of_image(config, decision.requests, settings, fault)
            if decision.requests:
                raise decision.unreadable
            _check_ignored(question, settings)
            return _judged(decision, question, world)
        # Kept before anything else can fail: the container asks then
        decision.requests = request.ask(
            annotations.requests, question.devices, settings.annotation_prefixes, settings.default_kind
        )
        image = _ask_image(config, settings, decision.requests)
        if image:
            decision.warn(image.warnings)
            decision.requests = {**decision.requests, **image.requests}
        if not decision.requests:
            _check_ignored(question, settings)
            return _judged(decision, question, world)
        request.check(question, decision.requests)
        names = list(decision.requests)
        if enforces:
            from shim.create import grants_rule, grants_subject  # late: few machines enforce grants

            decision.subject = grants_subject.subject_of(question, settings)
            drivers = image.driver_only if image else ()
            grants_rule.check_names([name for name in names if name not in drivers], question, settings, world)
        blocks = world.specs(names, image.driver_only if image else ())
        decision.resolved = _complete(names, blocks, world)
        decision.plan = impose(decision.resolved, question, world)
        if settings.locked:
            from shim.create import locked  # late: few machines lock their specs

            refused = locked.objections(decision.plan, settings, world, rootful=question.rootful, user=question.user)
            if refused:
                raise _refusal(refused)
        decision.warn([*settings.warnings, *decision.plan.findings])
        if question.unsure:
            raise _config_error(question, question.unsure)
        decision.edits = changes.between(config, _edit(question, decision, decision.plan, world, image))
        if question.verb != "restore":
            decision.folds = _foldable(question, decision.plan, world, settings.fold)
        _judged(decision, question, world)
    except CdiError as error:
        decision.refusal = error
    except Exception as error:  # a defect, or a damaged module: a container that asks is refused
        if not decision.requests and not enforces:
            raise
        decision.refusal = internal(error)
    finally:
        decision.trace = world.trace
    return decision


def _judged(decision: Decision, question: Question, world: World) -> Decision:
    """The decision, where the hardware in config.json is granted, or grants are not enforced. Raises CdiError.

    What the plan adds belongs to devices whose names were judged.
    """
    if decision.settings.enforce and question.rootful:
        from shim.create import grants_rule  # late: few machines enforce grants

        decision.exclusive = grants_rule.check_hardware(decision.requests, question, decision.settings, world)
    return decision


def _complete(names: list[str], blocks: list[Block], world: World) -> Plan:
    """The plan of the edits of specs, with the device nodes of the host. Raises CdiError."""
    try:
        return plan.complete(names, blocks, numbers=plan.DISK, lookup=world.node)
    except plan.NodeError as error:
        from shim.create import stale  # late: only what is refused needs it

        raise stale.missing_node(error, blocks, world) from None


def _may_ask(question: Question, settings: Settings) -> bool:
    """Whether what of config.json is not in the question's config may hold a request."""
    return any(needle in question.raw for needle in settings.needles())


def _check_ignored(question: Question, settings: Settings) -> None:
    """Refuse a container that asks for nothing here, where another reader of its config.json finds a request.

    Go merges two objects of one name, and takes `Annotations` for `annotations`. Raises CdiError (CONFIG_JSON).
    """
    if not question.raw or not _may_ask(question, settings):
        return
    request.check_spelling(question.misspelt)
    raise _config_error(question, f"{question.unsure}, and the one that does not count may ask for a device")


def impose(resolved: Plan, question: Question, world: World) -> Plan:
    """A plan under the rules of create, and as it works in the container's user namespace. Raises CdiError."""
    imposed, refused = rules.impose(resolved, question.launcher, world, rootful=question.rootful, user=question.user)
    if not question.rootful or has_user_namespace(question.config):
        from shim.create import userns  # late: few containers have one

        imposed = userns.adapt(imposed, question.config, world)
    if refused:
        try:
            from shim.create import spec_lines  # late, with the reader of YAML: only what is refused needs it

            spec_lines.add(refused, world)
        except Exception:  # noqa: S110  # a damaged module: the refusal stands, without lines
            pass
        raise _refusal(refused)
    return imposed


def has_hooks(plan: Plan) -> bool:
    """Whether a plan has hooks, which create may do itself."""
    return any(origin["edits"].get("hooks") for origin in plan.origins)


def _ask_image(config: Json, settings: Settings, requests: dict[str, str]) -> ImageRequests | None:
    """What the sources ask for that an image can write to; None where none is switched on."""
    if settings.environment == OFF and settings.mounts == OFF:
        return None
    from shim.create import image_requests  # late: most machines have switched none on

    return image_requests.ask(config, settings, requests)


def _edit(question: Question, decision: Decision, imposed: Plan, world: World, image: ImageRequests | None) -> Json:
    """The question's config with the devices.

    A restored container gets none: what runs in it was not started with them, and its annotations come from the archive
    of the checkpoint, which anybody may have written (CVE-2026-53492). Where grants are enforced it gets them: they are
    granted to its subject.
    """
    decision.entries = merge.Entries()
    edited = merge.add(imposed, question.config, decision.entries)
    if image:
        edited = image.without_repeats(edited)
    if any(origin["edits"].get("netDevices") for origin in imposed.origins):
        edited = _with_interfaces(edited, imposed, question, world)
    whole = edited
    if question.verb == "restore" and edited != question.config and has_hooks(imposed):
        from shim.create import hook_entries  # late, with the C core: it has the table of hooks

        edited = hook_entries.without_known(edited, question.config, imposed, question.launcher, world)
    if question.verb == "restore" and edited != question.config:
        if decision.settings.enforce and question.rootful:
            return whole
        text = f"the checkpoint asks for {', '.join(imposed.devices)}, which its container was not created with"
        raise CdiError([Finding("RESTORE_UNTRUSTED", text)])
    return edited


def _with_interfaces(edited: Json, imposed: Plan, question: Question, world: World) -> Json:
    """The config in which the interfaces of the plan reach the container under every low-level runtime."""
    from shim.create import netdevices  # late, like the next: few specs move interfaces
    from shim.host import abilities

    return netdevices.place(
        edited,
        netdevices.wanted(imposed.origins),
        native=abilities.native_net_devices(question.low, look=world),
        rootful=question.rootful,
        launcher=question.launcher,
    )


def _foldable(question: Question, imposed: Plan, world: World, whose: str) -> list[Json]:
    """The hooks of the plan whose work create may do itself."""
    if whose == OFF or not any(_may_be_known(path, question, world, whose) for path in _programs(imposed)):
        return []
    if whose == AUTO and not _is_read_only(question, world):
        return []
    try:
        from shim.create import known_hooks  # late, with the C core: few hooks are folded
    except (ImportError, SyntaxError):  # such as a C module of another Python; the hooks themselves need none
        return []
    if known_hooks.obstacle(question.config, question.low):
        return []
    new = [item for _, item in known_hooks.new(imposed, question.config)]
    return [item for item in new if known_hooks.is_foldable(item, question, world, whose)]


def _programs(plan: Plan) -> list[str]:
    """The programs of a plan's hooks, each once."""
    return list(dict.fromkeys(hook["path"] for origin in plan.origins for hook in origin["edits"].get("hooks") or ()))


def _may_be_known(path: str, question: Question, world: World, whose: str) -> bool:
    """Whether the program of a hook is one whose work create can do, judged by its path."""
    is_vendor_s = whose == KNOWN and path.rpartition("/")[2] in VENDOR_PROGRAMS
    return is_vendor_s or world.is_same_file(path, question.launcher)


def _is_read_only(question: Question, world: World) -> bool:
    """Whether the container's root cannot be written when hooks run: crun makes it read-only before it starts them."""
    root = question.config.get("root")
    if not isinstance(root, dict):
        return False
    path = root.get("path")
    if not isinstance(path, str):
        return False
    return bool(root.get("readonly")) or world.is_read_only(path if path[:1] == "/" else f"{question.bundle}/{path}")


def _refusal(refused: list[Finding]) -> CdiError:
    """Why a plan is refused: all findings, in a text that an engine can show."""
    error = CdiError(refused)
    if len(refused) > 1:
        error.args = (f"{refused[0]}; and {len(refused) - 1} more of its edits are refused",)
    return error


def _config_error(question: Question, text: str) -> CdiError:
    return CdiError([Finding("CONFIG_JSON", text, path=question.path)])
