from xml.etree import ElementTree

from bench.leasing import CLIENTS, DURABLE, IN_MEMORY, REDIS, Series, rows
from bench.load import Load
from bench.plot import svg

SVG = "{http://www.w3.org/2000/svg}"


def series(per_second: float) -> Series:
    found = Series()
    for clients in CLIENTS:
        found.add(clients, [Load(seconds=1.0, millis=[float(clients)] * int(per_second))])
    return found


def test_the_plot_has_a_line_for_every_side_and_measure() -> None:
    root = ElementTree.fromstring(svg({DURABLE: series(600), IN_MEMORY: series(1000)}))
    assert len(root.findall(f"{SVG}polyline")) == 2 * 3
    assert len(root.findall(f"{SVG}circle")) == 2 * 3 * len(CLIENTS)


def test_ratios_are_to_what_stands_beside_it_and_asked_for_at_most_clients() -> None:
    found = {row.name: row for row in rows({DURABLE: series(600), IN_MEMORY: series(1000), REDIS: series(300)})}
    assert found["durable_to_in_memory_ratio_256_clients"].value == 0.6
    assert found["durable_to_in_memory_ratio_256_clients"].met is True
    assert found["durable_to_redis_ratio_256_clients"].value == 2.0
    assert found["durable_to_redis_ratio_64_clients"].met is None
    assert found["acquire_p50_1_client"].target == 20.0
    assert found["acquire_p99_256_clients"].met is False


def test_without_redis_its_rows_are_left_out() -> None:
    assert not [row for row in rows({DURABLE: series(600), IN_MEMORY: series(1000)}) if "redis" in row.name]


def test_a_ratio_is_the_median_of_rounds_taken_in_turn_and_its_spread_is_shown() -> None:
    durable, memory = Series(), Series()
    for clients in CLIENTS:
        durable.add(clients, [Load(seconds=1.0, millis=[1.0] * count) for count in (50, 60, 20)])
        memory.add(clients, [Load(seconds=1.0, millis=[1.0] * count) for count in (100, 100, 10)])
    found = {row.name: row.value for row in rows({DURABLE: durable, IN_MEMORY: memory})}
    name = "durable_to_in_memory_ratio_64_clients"
    assert (found[f"{name}_lowest_round"], found[name], found[f"{name}_highest_round"]) == (0.5, 0.6, 2.0)
