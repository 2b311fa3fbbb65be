"""Composition root of the host agent: builds the feed client and the roles from the configuration."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from oslo_config import cfg

from neutrino import __version__, logs
from neutrino.agent import config
from neutrino.agent.bgp import build as bgp
from neutrino.agent.dhcp import build as dhcp
from neutrino.agent.guard.decide import FOREIGN_FLOWS, Facts, judge
from neutrino.agent.guard.gate import Bridges, Gate, GuardOptions, of_feed
from neutrino.agent.l2 import build as l2
from neutrino.agent.l2.role import L2Role
from neutrino.agent.l3 import build as l3
from neutrino.agent.metadata import build as metadata
from neutrino.agent.runtime import loop, measures
from neutrino.agent.runtime.context import Intervals, RoleContext
from neutrino.agent.runtime.own_state import own_state
from neutrino.agent.runtime.queries import Handler, Queries, typed
from neutrino.agent.runtime.role import START, Drift, Role
from neutrino.agent.runtime.switch import Switch
from neutrino.agent.sriov import build as sriov
from neutrino.agent.takeover import build as takeover
from neutrino.agent.takeover import control, phase, verdicts
from neutrino.agent.takeover.commands import Commands
from neutrino.agent.takeover.conversion import Refused
from neutrino.agent.takeover.look import Look, look_of
from neutrino.agent.takeover.remote import Remote
from neutrino.agent.takeover.shadow import Shadow, command_of, look_in_process
from neutrino.agent.takeover.stored_feed import StoredFeed
from neutrino.agent.takeover.verdicts import Comparison
from neutrino.agent.takeover.works import Works
from neutrino.agent.trace import build as trace
from neutrino.configuration import findings
from neutrino.configuration.options import Configuration
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.errors import RefusedToStart
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.credential_file import CredentialFile, reason_of
from neutrino.feed.state import State
from neutrino.metrics.listener import serving
from neutrino.metrics.process import start
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.takeover import QUERY as TAKEOVER
from neutrino.model.takeover import Question as TakeoverQuestion
from neutrino.model.trace import QUERY, Question
from neutrino.notify import notify
from neutrino.tls import ClientContext

LOG = logging.getLogger(__name__)
CACHE = "feed.json"
SYNC_SECONDS = 10.0
EXIT_SECONDS = 2.0  # to close connections, after running work was completed or given up


def run(files: Sequence[str], server_options: Callable[[], findings.Groups] = tuple) -> None:
    """Run the agent until SIGTERM or SIGINT. `server_options`: of the server, whose files are often given to agents too."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # its default action would end an agent that is still starting
    conf = _configuration(files)
    logs.setup(conf)
    _log_options(conf)
    registry = start("agent", __version__)  # before the roles, which count from their start
    with own_state(Path(conf.state_path)), serving(conf, registry):
        works = Works()
        while asyncio.run(_run(conf, files, server_options, works)):
            LOG.info("this host is Neutron's again")


def find(
    files: Sequence[str], seconds: float = SYNC_SECONDS, admitted: frozenset[str] = frozenset()
) -> tuple[list[Drift], bool]:
    """The drift of this host, and whether the server gave the desired state. The agent may be running or not.

    `admitted`: causes in spite of which the agent would work.
    """
    conf = _configuration(files)
    logging.basicConfig(level=logging.WARNING)  # the output is for the caller

    async def find_drift() -> tuple[list[Drift], bool]:
        async with _observing(conf, admitted) as (client, context):
            cache = Path(conf.state_path) / CACHE
            found, synced = await loop.find_drift(client, _roles(context), seconds, cache)
            return [
                *await asyncio.to_thread(_find_causes, context, client.state if synced else None, cache),
                *found,
            ], synced

    return asyncio.run(find_drift())


def compare(files: Sequence[str], say: Callable[[str], None], seconds: float = SYNC_SECONDS) -> Comparison | None:
    """What the flows of this host, as Neutron's, do with packets of its ports, compared with its security groups.

    None if the server does not respond, or no role of this agent writes flows. Nothing is changed.
    """
    conf = _configuration(files)

    async def comparison() -> Comparison | None:
        async with _observing(conf, frozenset()) as (client, context):
            roles = _roles(context)
            role = next((role for role in roles if isinstance(role, L2Role)), None)
            _, synced = await loop.find_drift(client, [], seconds, Path(conf.state_path) / CACHE)
            if role is None or not synced:
                return None
            inspection = RealInspection(conf.ovs.run_directory, l2.DATAPATHS.get(conf.ovs.datapath_type, ""))
            return await asyncio.to_thread(verdicts.compare, await role.view(), inspection, say)

    return asyncio.run(comparison())


def look(files: Sequence[str], objects: bytes, goes_on: Callable[[], bool], first: int) -> Look:
    """What a conversion of this host would change, by objects that the running agent has; nothing is changed."""
    conf = _configuration(files)
    logging.basicConfig(level=logging.ERROR)

    async def looked() -> Look:
        switch = _switch(conf)
        context = RoleContext(conf, StoredFeed(objects, _kinds(conf)), switch, guard=_guard(conf))
        context.guard.admitted |= {FOREIGN_FLOWS}
        try:
            roles = _roles(context)
            drifts = [await role.find() for role in roles]
            view = await next(role for role in roles if isinstance(role, L2Role)).view()
            inspection = RealInspection(conf.ovs.run_directory, l2.DATAPATHS.get(conf.ovs.datapath_type, ""))
            comparison = await asyncio.to_thread(verdicts.compare, view, inspection, _unsaid, goes_on, first)
            return look_of(comparison, drifts)
        finally:
            await asyncio.to_thread(switch.close)

    return asyncio.run(looked())


def _unsaid(text: str) -> None:
    """Progress that nobody waits for."""


@contextlib.asynccontextmanager
async def _observing(conf: Configuration, admitted: frozenset[str]) -> AsyncIterator[tuple[FeedClient, RoleContext]]:
    """What roles are built from that change nothing, beside a running agent."""
    client, switch = _feed(conf, cache=None), _switch(conf)  # the cache file is the running agent's
    guard = _guard(conf)
    guard.admitted |= admitted
    try:
        yield client, RoleContext(conf, client, switch, guard=guard)
    finally:
        await asyncio.to_thread(switch.close)


def _configuration(files: Sequence[str]) -> Configuration:
    conf = config.configuration(files)
    config.check(conf)
    return conf


async def _run(
    conf: Configuration, files: Sequence[str], server_options: Callable[[], findings.Groups], works: Works
) -> bool:
    """Until SIGTERM; True: the host was given back to Neutron's agents, and a new run waits at its gate."""
    client, switch = _feed(conf, cache=Path(conf.state_path) / CACHE), _switch(conf)
    intervals = Intervals(conf.agent.check_interval, conf.agent.repair_interval)
    current = [conf]  # replaced by SIGHUP
    reporter = loop.Reporter(client, lambda: float(current[0].agent.report_interval))
    context = RoleContext(conf, client, switch, intervals, reporter.soon, guard=_guard(conf))
    roles = _roles(context)
    gate = Gate(client, context.guard, _bridges(context), lambda: intervals.check, reporter.soon)
    reporter.held = lambda: gate.problems
    shadow = Shadow(
        *(gate, lambda: client.offered, works, partial(command_of, files)),
        lambda: float(current[0].agent.takeover_check_interval),
        reporter.soon,
    )
    reporter.compared = shadow.held
    remote = Remote(works, partial(phase.read_phase, conf.state_path), lambda: bool(current[0].agent.remote_takeover))
    queries = Queries(client, {**_query_handlers(context, roles), TAKEOVER: typed(TakeoverQuestion, remote.answer)})
    client.on_query(queries.take)
    stop, terminated = asyncio.Event(), asyncio.Event()
    events = asyncio.get_running_loop()
    quitting: float = conf.agent.quitting_rpc_timeout

    def terminate() -> None:
        terminated.set()
        _stop(stop, quitting)

    for number in (signal.SIGTERM, signal.SIGINT):
        events.add_signal_handler(number, terminate)

    def reload() -> None:
        _reload(current, files, intervals, reporter, gate)
        client.retry_now()  # with the credential that its file has now

    events.add_signal_handler(signal.SIGHUP, reload)
    measures.watch(client, [*roles, gate, shadow])
    LOG.info("neutrino agent %s on %s, roles %s", __version__, conf.host, ", ".join(conf.roles))
    findings.report(conf, findings.AGENT, server_options)
    notify("READY=1")  # not after `synced`: an agent that waits for its server keeps the host as it is
    try:
        async with _takeover(conf, files, context, gate, client, roles, stop, works, remote, shadow) as commands:
            await loop.run(client, roles, reporter, stop, quitting, gate)
            if commands is not None and commands.is_returning:
                await commands.return_host()
                return not terminated.is_set()
    finally:
        await queries.close()
        await asyncio.to_thread(switch.close)
    return False


@contextlib.asynccontextmanager
async def _takeover(
    conf: Configuration,
    files: Sequence[str],
    context: RoleContext,
    gate: Gate,
    client: FeedClient,
    roles: Sequence[Role],
    stop: asyncio.Event,
    works: Works,
    remote: Remote,
    shadow: Shadow,
) -> AsyncIterator[Commands | None]:
    """Serves `neutrino takeover host`, on this host and through the feed, on a host whose agent has the switch."""
    bridges = _bridges(context)
    if bridges is None:
        yield None
        return
    if phase.read_phase(conf.state_path) is phase.Phase.RETURNING:  # an agent was killed while it gave the host back
        await asyncio.to_thread(takeover.restore, conf, bridges, LOG.info)
        phase.write_phase(conf.state_path, phase.Phase.NONE)
        context.guard.admitted = frozenset()
    differences = partial(_differences, files)

    async def compared() -> Look:
        held = client.offered if client.offered is not None else client.state
        if not held.is_synced:
            raise Refused("the server has not sent its objects yet")
        return await look_in_process(command_of(files, 0), held.dump())

    commands = takeover.commands(conf, bridges, gate, client, roles, differences, stop.set, works, compared)
    commands.before_change = shadow.stop
    await commands.recover()
    completion = asyncio.create_task(commands.complete())
    comparing = asyncio.create_task(shadow.run(), name="shadow mode")
    try:
        async with control.serving(conf.state_path, commands.handle), remote.serving(commands):
            yield commands
    finally:
        for task in (completion, comparing):
            task.cancel()
        await asyncio.gather(completion, comparing, return_exceptions=True)


def _differences(files: Sequence[str]) -> list[Drift]:
    """What the roles would change, foreign flows included."""
    return find(files, admitted=frozenset({FOREIGN_FLOWS}))[0]


def _stop(stop: asyncio.Event, quitting: float) -> None:
    """Ends the agent, also if threads hang, as in a switch that does not answer: Python would wait for them."""

    def end() -> None:
        LOG.warning("work is not completed after quitting_rpc_timeout=%g seconds: the agent ends without it", quitting)
        logging.shutdown()
        os._exit(0)

    if not stop.is_set():
        timer = threading.Timer(quitting + EXIT_SECONDS, end)
        timer.daemon = True
        timer.start()
    stop.set()


def _feed(conf: Configuration, cache: Path | None) -> FeedClient:
    addresses = config.feed_addresses(conf)
    tls = ClientContext(conf.feed.ca_file) if any(address.tls for address in addresses) else None
    try:
        credential = CredentialFile(conf.feed.credential_file)
    except (OSError, ValueError) as error:
        raise RefusedToStart(f"[feed] credential_file={conf.feed.credential_file}: {reason_of(error)}") from None
    settings = ClientOptions(
        addresses[0],
        conf.host,
        credential,
        roles=tuple(conf.roles),
        release=__version__,
        tls=tls,
        longest_delay=conf.feed.longest_delay,
        others=tuple(addresses[1:]),
    )
    return FeedClient(settings, cache=cache, kinds=_kinds(conf))


def _kinds(conf: Configuration) -> Mapping[str, Kind]:
    return l2.feed_kinds(l2.load(conf)) if "l2" in conf.roles else KINDS


def _switch(conf: Configuration) -> Switch:
    return Switch(conf.ovs.ovsdb_connection, conf.ovs.ovsdb_timeout, config.ovsdb_files(conf))


def _roles(context: RoleContext) -> list[Role]:
    """The configured roles, in the order of their start: l2 is first, as the devices of the others need it."""
    builders: dict[str, Callable[[RoleContext], Role]] = {
        "l2": l2.build,
        "dhcp": dhcp.build,
        "l3": l3.build,
        "metadata": metadata.build,
        "bgp": bgp.build,
        "sriov": sriov.build,
    }
    return [build(context) for name, build in builders.items() if name in context.conf.roles]


def _guard(conf: Configuration) -> GuardOptions:
    is_ours = phase.read_phase(conf.state_path) in (phase.Phase.CONVERTING, phase.Phase.CONVERTED)
    admitted = frozenset({FOREIGN_FLOWS}) if is_ours else frozenset[str]()
    return GuardOptions(frozenset(conf.agent.start_despite), config.kept_cookies(conf), admitted)


def _bridges(context: RoleContext) -> Bridges | None:
    return l2.guarded_bridges(context) if "l2" in context.conf.roles else None


def _find_causes(context: RoleContext, sent: State | None, cache: Path) -> list[Drift]:
    """Why an agent that is started now would change nothing."""
    cached, bridges = State(), _bridges(context)
    with contextlib.suppress(OSError, ValueError):  # no cache: the agent has not been synced yet
        cached.load(cache.read_bytes())
    facts = of_feed(bridges.read() if bridges is not None else Facts(), cached, sent)
    causes = judge(facts, context.guard.ignored).causes
    return [Drift(START, problems=causes)] if causes else []


def _query_handlers(context: RoleContext, roles: Sequence[Role]) -> dict[str, Handler]:
    """What the server may ask this host, by the kind of the query."""
    tracer = trace.build(context, roles)
    if (rules := trace.host_rules(context)) is not None:
        for role in roles:
            if isinstance(role, L2Role):
                role.tunnel_rules = rules.problems
    return {QUERY: typed(Question, tracer.answer)} if tracer is not None else {}


def _log_options(conf: Configuration) -> None:
    """The values of all options in force, at DEBUG; those of secret options are masked."""
    if LOG.isEnabledFor(logging.DEBUG):
        conf.log_opt_values(LOG, logging.DEBUG)


def _reload(
    current: list[Configuration], files: Sequence[str], intervals: Intervals, reporter: loop.Reporter, gate: Gate
) -> None:
    """SIGHUP: read the files again, apply options that can change at run time, and log those that cannot."""
    try:
        conf = _configuration(files)
    except (cfg.Error, RefusedToStart) as error:
        LOG.error("the configuration is not reloaded: %s", error)
        return
    before, after = config.values(current[0]), config.values(conf)
    changed = [key for key in after if after[key] != before[key]]
    waiting = [f"[{group}] {name}" for group, name in changed if (group, name) not in config.RELOADED]
    if waiting:
        LOG.warning("these options need a restart of the agent: %s", ", ".join(sorted(waiting)))
    logs.setup(conf)
    _log_options(conf)
    current[0] = conf
    # Roles read these before each wait, so they take effect without a restart.
    intervals.check, intervals.repair = conf.agent.check_interval, conf.agent.repair_interval
    read = _guard(conf)
    gate.options.despite, gate.options.kept = read.despite, read.kept
    gate.look()
    reporter.soon()
    LOG.info("configuration reloaded")
