"""The capacity model: what it says of sizes that were measured, what its parts do, and the page that keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.scale.__main__ import run
from bench.scale.beside import measured_beside
from bench.scale.landing import LANDINGS, simulate
from bench.scale.laws import line, path_length, predictions
from bench.scale.measure import measure
from bench.scale.model import CONNECTIONS_EACH, Machine, bounds, capacity, each_action
from bench.scale.page import PAGE, contract, tables, with_tables
from bench.scale.placing import loads, placed
from bench.scale.records import kept, of_json
from readback.stores.postgres.queries import READERS_MAX
from readback.stores.wakeups.procrastinate_queue import CONNECTIONS_MAX

STORED_ERROR_MAX = 0.02
CPU_ERROR_MAX = 0.25
DUE_US_MAX = 5_000
GROWN_MB_MAX = 5
SECOND_MAX = 1.15


@pytest.mark.requirement("DRILL-capacity")
def test_the_page_is_the_one_that_the_figures_give() -> None:
    assert run(["--check"]) == 0, "run: python -m bench.scale --write"


@pytest.mark.requirement("DRILL-capacity")
def test_each_size_was_predicted_out_of_the_smaller_ones() -> None:
    made = predictions(kept())
    assert {each.actions for each in made} == {size.actions for size in kept().sizes[1:]}
    assert len(kept().sizes) >= 3
    for each in made:
        assert abs(each.error) <= (CPU_ERROR_MAX if each.thing.startswith("CPU") else STORED_ERROR_MAX), each


@pytest.mark.requirement("DRILL-many-waiting")
def test_a_million_that_wait_were_no_slower_to_look_through_and_took_no_more_memory() -> None:
    most = [each for each in kept().waiting if each.actions >= 1_000_000]
    assert {each.tenants for each in most} >= {1, 1_000}
    for each in most:
        assert max(each.due_us, each.next_us) < DUE_US_MAX
        fewest = min((w for w in kept().waiting if w.tenants == each.tenants), key=lambda w: w.actions)
        assert each.rss_mb - fewest.rss_mb <= GROWN_MB_MAX


@pytest.mark.requirement("FLEET-second")
def test_a_second_process_added_little_to_what_an_action_costs_its_client() -> None:
    alone, *more = kept().beside
    assert (alone.processes, more[0].processes) == (1, 2)
    assert len(more) >= 3
    each = alone.client_cpu_us / alone.actions
    assert more[0].client_cpu_us / more[0].actions <= SECOND_MAX * each
    assert all(one.actions == one.processes * alone.actions and one.server_cpu_us > 0 for one in more)


@pytest.mark.slow
@pytest.mark.requirement("FLEET-second")
def test_processes_beside_each_other_are_measured_by_their_time_at_work() -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # PostgreSQL runs as nobody where this runs as root
        one, two = measured_beside(Path(name), (1, 2), 40, lambda _text: None, rounds=1)
    assert (one.processes, one.actions, two.processes, two.actions) == (1, 40, 2, 80)
    for each in (one, two):
        assert 0 < each.client_cpu_us < each.processes * each.elapsed_us
    found = replace(kept(), beside=(one, two))
    assert of_json(found.to_json()) == found


@pytest.mark.slow
@pytest.mark.requirement("DRILL-capacity")
def test_what_is_measured_in_small_is_predicted_too(tmp_path: Path) -> None:
    found = measure(tmp_path, (60, 180), ((300, 3),), (), {}, lambda _text: None)
    assert of_json(found.to_json()) == found
    by_name = {each.thing: each for each in predictions(found)}
    assert [size.entries for size in found.sizes] == [360, 1_080]
    assert abs(by_name["bytes of entries"].error) < STORED_ERROR_MAX
    assert abs(by_name["bytes of a proof"].error) < STORED_ERROR_MAX
    assert found.look.entries == 2
    assert found.waiting[0].rss_mb > 0


def test_capacity_is_planned_with_as_many_connections_as_a_worker_takes() -> None:
    writing, listening = 2, 1
    assert writing + READERS_MAX + CONNECTIONS_MAX + listening == CONNECTIONS_EACH


def test_a_path_is_as_long_as_the_specification_says() -> None:
    assert [path_length(n) for n in (0, 1, 2, 3, 4, 5, 256, 257)] == [0, 0, 1, 2, 2, 3, 8, 9]


def test_a_line_goes_through_the_last_two_points_or_from_the_start() -> None:
    assert line([(10, 30)], None, 10)(20) == 50
    assert line([(10, 30)], 1.0, 10)(20) == 40
    assert line([(0, 99), (10, 30), (20, 50)], 1.0, 0)(30) == 70


def test_what_is_there_at_once_is_looked_at_once_and_what_is_late_more_often() -> None:
    at_once, seldom, late, _ = (simulate(contract(), landing, 2_000) for landing in LANDINGS)
    assert (at_once.looks, at_once.waited_s, at_once.open) == (1, 0, 0)
    assert 1 < seldom.looks < late.looks
    assert late.waited_s > seldom.waited_s > 0
    assert simulate(contract(), LANDINGS[1], 2_000) == seldom, "one seed, one answer"


def test_ten_times_the_rate_is_at_most_ten_times_the_shards_and_each_holds_what_it_may() -> None:
    looked, machine = simulate(contract(), LANDINGS[1], 2_000), Machine()
    most = min(bound.actions_per_s for bound in bounds(each_action(kept(), looked), machine))
    one, ten = (capacity(rate, kept(), looked, machine) for rate in (20_000, 200_000))
    assert one.shards * one.per_shard == pytest.approx(20_000)
    assert one.per_shard <= most
    assert one.shards < ten.shards <= 10 * one.shards
    assert ten.wal_bytes_per_s == pytest.approx(10 * one.wal_bytes_per_s)
    assert ten.proof_hashes - one.proof_hashes <= 1, "shards divide the log"
    assert capacity(20_000, kept(), looked, machine, per_shard=500).shards == 40


def test_no_shard_has_more_than_it_holds_and_a_tenant_that_is_too_large_is_said_to_be() -> None:
    assert sum(loads(100, 7, 0.5)) == pytest.approx(100)
    even = placed(100, 10, 0.0, tenants=1_000)
    assert 10 <= even.by_room <= even.by_hash
    too_large = placed(100, 10, 2.0, tenants=1_000)
    assert too_large.largest > 10
    assert (too_large.by_hash, too_large.by_room) == (0, 0)


def test_a_table_without_a_place_and_a_place_without_a_table_are_faults() -> None:
    made = tables(kept())
    page = PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="places"):
        with_tables(page, {**made, "more": ""})
    with pytest.raises(ValueError, match="places"):
        with_tables(page.replace("<!-- table: bounds -->", ""), made)
