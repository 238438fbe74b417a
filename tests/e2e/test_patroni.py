"""Patroni lets a standby take over: what the programs had shown is in the log afterwards, once, by one writer."""

import random
import time
from itertools import cycle
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import pytest

from tests.e2e.failovers import BEHIND, COUNT, FAILOVERS, Failover, run_campaign
from tests.support.patroni import NODES, Node, PatroniCluster, missing_program, running_patroni, send_all

LOSSES = {
    "server killed": (SIGKILL, "postgres"),
    "server and Patroni killed": (SIGKILL, "patroni", "postgres"),
    "Patroni killed": (SIGKILL, "patroni"),
    "node stopped": (SIGSTOP, "patroni", "postgres", "etcd"),
    "node cut off": (SIGSTOP, "etcd"),
}
"""Ways to lose the primary: a signal, and the parts of the node that get it. A server whose Patroni is killed goes on,
beside the new primary, until its Patroni starts again. A stopped one wakes up when another is the primary.
"""
TWO_PRIMARIES = (0.0, 1.0, 4.0)
"""Seconds from a promotion until the lost node is there again."""
PROMOTION = 90.0
"""Seconds within which a standby takes over, or the node is there again without."""
SENDERS = "select pid from pg_stat_replication"

needs_patroni = pytest.mark.skipif(bool(missing_program()), reason=missing_program())


class PromotedByPatroni:
    """Servers whose primary Patroni chooses."""

    def __init__(self, cluster: PatroniCluster) -> None:
        self._cluster, self._losses = cluster, cycle(LOSSES.items())

    @property
    def dsn(self) -> str:
        return self._cluster.dsn

    @property
    def primary_dsn(self) -> str:
        return self._cluster.primary.address()

    def fail_over(self, chance: random.Random) -> Failover:
        """Lose the primary, while the standbys have received nothing for a while, until a standby takes over."""
        while (failover := self._lose(chance)) is None:
            self.repair()
        return failover

    def repair(self) -> None:
        # A server that is back, and not rewound yet, would keep the others from taking over: its log is longer.
        self._cluster.wait_for_standbys(NODES - 1)

    def _lose(self, chance: random.Random) -> Failover | None:
        """Lose the primary; return None if no standby took over."""
        (loss, (signal, *parts)), behind, away = next(self._losses), chance.choice(BEHIND), chance.choice(TWO_PRIMARIES)
        lost = self._cluster.primary
        others, timeline = [each for each in self._cluster.nodes if each is not lost], lost.timeline()
        halted = [pid for (pid,) in lost.rows(SENDERS)] if behind else []
        send_all(SIGSTOP, halted)
        time.sleep(behind)
        had = events_of(lost)
        found = lost.send(signal, *parts)
        has = max(map(events_of, others))
        promoted = wait_for_promotion(others, timeline)
        if promoted:
            time.sleep(away)
            had = events_of(lost) if lost.timeline() == timeline else had  # a server without a Patroni went on
        send_all(SIGCONT, [*found, *halted])
        if not lost.is_running("patroni"):
            self._cluster.start_patroni(lost)
        return Failover(loss, max(0, had - has), promoted) if promoted else None


def events_of(node: Node) -> int:
    """Return how many events a server has; 0 if it does not answer."""
    return next((count for (count,) in node.rows(COUNT, "ikigai")), 0)


def wait_for_promotion(nodes: list[Node], timeline: str) -> float | None:
    """Wait until one of these takes writes on a newer timeline. Return the time, None if that does not happen."""
    deadline = time.monotonic() + PROMOTION
    while not any(each.timeline() > timeline for each in nodes):
        if time.monotonic() > deadline:
            print("no standby took over", flush=True)
            return None
        time.sleep(0.2)
    return time.monotonic()


@needs_patroni
@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_failovers_by_patroni_lose_nothing_that_was_shown(tmp_path: Path) -> None:
    with running_patroni() as cluster:
        failovers = run_campaign(PromotedByPatroni(cluster), tmp_path, random.Random(3))
        rewinds = cluster.rewinds()
        print(f"{rewinds} servers were rewound by pg_rewind")
    assert sum(bool(each.lacked) for each in failovers) > FAILOVERS // 3
    assert rewinds


@needs_patroni
@pytest.mark.long
@pytest.mark.timeout(0)
def test_synchronous_failovers_by_patroni_lose_nothing_that_was_shown(tmp_path: Path) -> None:
    with running_patroni(synchronous_mode=True, synchronous_mode_strict=True) as cluster:
        servers, count = PromotedByPatroni(cluster), max(3, FAILOVERS // 6)
        run_campaign(servers, tmp_path, random.Random(4), count, IKIGAI_DATABASE_DURABILITY="replicated")
