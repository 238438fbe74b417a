"""A standby that is behind takes over: what the programs had shown is in the log afterwards, once, by one writer."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.account import Account
from tests.e2e.failovers import (
    BEHIND,
    COUNT,
    FAILOVERS,
    Failover,
    check_shown,
    make_schema,
    run_campaign,
    talkers,
    wait_for_turns,
)
from tests.support.cluster import Cluster, running_cluster


class PromotedByTest:
    """Servers whose standbys the test promotes; `behind` are seconds to choose from."""

    def __init__(self, cluster: Cluster, behind: Sequence[float] = BEHIND) -> None:
        self.cluster, self._behind = cluster, behind

    @property
    def dsn(self) -> str:
        return self.cluster.dsn

    @property
    def primary_dsn(self) -> str:
        return self.cluster.address(self.cluster.primary)

    def fail_over(self, chance: random.Random) -> Failover:
        """Crash the primary and promote a standby that has received nothing for a while."""
        cluster, chosen, behind = self.cluster, chance.choice(self.cluster.others), chance.choice(self._behind)
        if behind:
            cluster.cut_off(chosen)
            time.sleep(behind)
        with cluster.connect(cluster.primary) as connection:
            ((had,),) = connection.execute(COUNT).fetchall()
        cluster.kill(cluster.primary)
        with cluster.connect(chosen) as connection:
            ((has,),) = connection.execute(COUNT).fetchall()
        cluster.promote(chosen)
        assert isinstance(had, int) and isinstance(has, int)
        # More may be stored between the count and the crash.
        return Failover("killed", max(0, had - has), time.monotonic())

    def repair(self) -> None:
        self.cluster.rebuild()


def test_shown_events_survive_a_standby_that_was_behind(tmp_path: Path) -> None:
    with running_cluster(2) as cluster:
        make_schema(cluster.dsn)
        with talkers(cluster.dsn, tmp_path, 2) as programs:
            wait_for_turns(programs, 4)
            failover = PromotedByTest(cluster, behind=[1.0]).fail_over(random.Random(1))
            wait_for_turns(programs, 3)
        assert failover.lacked > 0
        user = Account(tmp_path, cluster.dsn)
        dumped = user.run("db", "dump", "all.dump")
        assert dumped.returncode == 0, dumped.stderr
        seen = user.run("doctor", "--json")
        assert f"{cluster.folder}:5432 or {cluster.folder}:5433" in seen.stdout
        assert not [said for program in programs for said in program.ended]
        check_shown(cluster.address(cluster.primary), programs)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_many_failovers_lose_nothing_that_was_shown(tmp_path: Path) -> None:
    with running_cluster(3) as cluster:
        failovers = run_campaign(PromotedByTest(cluster), tmp_path, random.Random(2))
        print(cluster.rebuilt)
    assert sum(bool(each.lacked) for each in failovers) > FAILOVERS // 3
