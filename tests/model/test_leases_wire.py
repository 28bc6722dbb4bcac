import json

import pytest

from model.lease_answers import AnswerWriter, Granted, NoMatch, SessionUnavailable, Stale, Word, decode_answers
from model.lease_batch import ANSWER_BYTES_LIMIT, apply_batch
from model.lease_operations import (
    Acquire,
    GiveBack,
    Gone,
    Latencies,
    Latency,
    Look,
    Operation,
    Primed,
    Probe,
    Probes,
    Release,
    Renew,
    Report,
    Transition,
)
from model.lease_wire import MalformedBatchError, decode_operations, encode_operation, join_operations
from tests.model.lease_fixtures import COOLDOWN, MINUTE, START, Leasing, view

OPERATIONS: list[Operation] = [
    Acquire("id", {"geo": "eü"}, "site", 1000, 2000),
    Acquire("id", {}, "", 1, 0, "0123456789abcdef", "fedcba9876543210", True),
    Renew("id", 7),
    Look("id"),
    Release("id"),
    GiveBack("id"),
    Report("id", "banned", "", 5),
    Transition("ns/a", "uid", (START, 3), view(attributes={"geo": "eu"})),
    Transition("ns/a", "uid", (START, 4), view(leasable=False, drain_ends_at=START + MINUTE)),
    Gone("ns/a", "uid", (START, 4)),
    Latencies([Latency("ns/a", "uid", 7)]),
    Probes([Probe("ns/a", "uid", 0), Probe("ns/b", "uid", 40_000)]),
    Primed(),
]


def test_every_operation_comes_back_as_it_was_sent() -> None:
    decoded = decode_operations(join_operations([encode_operation(operation) for operation in OPERATIONS]))
    assert [(type(operation), operation) for operation in decoded] == [(type(one), one) for one in OPERATIONS]


def test_every_answer_comes_back_and_a_view_travels_once() -> None:
    seen, other = view(attributes={"a": "b"}), view(attributes={"a": "b"})
    answers = [
        Granted("ns/a", seen, 1, START, 5),
        Granted("ns/a", seen, 2, START, 6),
        Granted("ns/b", other, 1, START, 7),
        NoMatch(4, 1, 2, 1),
        NoMatch(4, 1, 2, 1, START),
        SessionUnavailable(START),
        Stale((START, 9)),
        *Word,
    ]
    writer = AnswerWriter()
    for answer in answers:
        writer.add(answer)
    assert decode_answers(writer.text()) == answers
    assert len(json.loads(writer.text())["views"]) == 2


def test_only_a_drain_travels_in_ways_that_older_readers_do_not_know() -> None:
    """Clients and brokers of the release before go on as long as nothing drains; answers never say that it does."""
    draining = view(leasable=False, drain_ends_at=START)
    ((*_, told),) = json.loads(join_operations([encode_operation(Transition("ns/a", "uid", (START, 3), view()))]))
    assert told == list(view())[:9]
    ((*_, told),) = json.loads(join_operations([encode_operation(Transition("ns/a", "uid", (START, 3), draining))]))
    assert told == list(draining)
    writer = AnswerWriter()
    writer.add(Granted("ns/a", draining, 1, START, 5))
    assert json.loads(writer.text())["views"] == [["ns/a", *draining[:9]]]


@pytest.mark.parametrize(
    "batch",
    [
        "",
        "{}",
        "null",
        "[" * 100_000,
        "[1]",
        "[[]]",
        '[["z"]]',
        '[[["a"]]]',
        '[["a","id",{},"",1000]]',
        '[["a","id",{},"",true,1]]',
        '[["a","id",{"k":1},"",1,1]]',
        '[["a","id",{},"",0,1]]',
        '[["a","",{},"",1,1]]',
        '[["r",""]]',
        '[["r","' + "x" * 65 + '"]]',
        '[["p","id","throttled","",1]]',
        '[["p","id","banned","",-1]]',
        '[["t","ns/a","uid",[1],[]]]',
        '[["t","ns/a","uid",[1,2],["ip"]]]',
        '[["t","ns/a","uid",[1,2],["ip",1,{},"Ready",true,1,1,true,"one",-1]]]',
        '[["t","ns/a","uid",[1,2],["ip",1,{},"Ready",true,1,1,true,"one","1"]]]',
        '[["g","ns/a","uid",[1,2.5]]]',
        '[["l",[["ns/a","uid"]]]]',
        '[["d",1]]',
        '[["a","id",{},"",1,1,""]]',
        '[["a","id",{},"",1,1,"","",1]]',
        '[["a","id",{},"",1,1,"0123456789ABCDEF","",false]]',
        '[["a","id",{},"",1,1,"","0123",false]]',
        '[["n","id",0]]',
        '[["n","",1]]',
        '[["k",""]]',
        '[["o",[["ns/a","uid"]]]]',
        '[["o",[["ns/a","uid",-1]]]]',
        json.dumps([["d"]] * 1001),
        '[["a","id",{},"",' + "9" * 5000 + ",1]]",
    ],
)
def test_what_is_no_batch_is_refused_without_its_content(batch: str) -> None:
    with pytest.raises(MalformedBatchError) as caught:
        decode_operations(batch)
    assert len(str(caught.value)) < 200


def test_answers_that_would_not_fit_say_again_and_apply_nothing() -> None:
    leasing = Leasing()
    attributes = {f"key-{place}": "\x01" * 60 for place in range(60)}
    for place in range(100):
        leasing.tell(f"ns/{place:03}", attributes=attributes)
    operations = [Acquire(f"id-{place}", {}, "", MINUTE, COOLDOWN) for place in range(100)]
    text = apply_batch(leasing.table, operations, START)
    answers = decode_answers(text)
    granted = [answer for answer in answers if isinstance(answer, Granted)]
    assert len(text) <= ANSWER_BYTES_LIMIT
    assert answers == granted + [Word.AGAIN] * (100 - len(granted))
    assert 0 < len(granted) < 100
    assert len(leasing.table.leases.by_id) == len(granted)


def test_a_batch_that_is_too_much_work_is_done_in_parts() -> None:
    leasing = Leasing()
    leasing.tell("ns/rests", attributes={"rests": "yes"})
    leasing.grant("first", rests="yes")
    for place in range(1000):
        leasing.report("first", target=f"target-{place}")
    leasing.tell("ns/rests", max_leases=1)
    for place in range(1999):
        leasing.tell(f"ns/{place:04}", max_leases=0)
    operations = [Acquire(f"id-{place}", {}, f"target-{place}", MINUTE, COOLDOWN) for place in range(1000)]
    rounds = 0
    waiting: list[Operation] = list(operations)
    while waiting:
        answers = decode_answers(apply_batch(leasing.table, waiting, START))
        done = [answer for answer in answers if answer is not Word.AGAIN]
        assert done
        assert set(done) == {NoMatch(2000, 1999, 1, 0, START + COOLDOWN)}
        waiting = waiting[len(done) :]
        rounds += 1
    assert 1 < rounds < 20


def test_a_flood_of_targets_that_nothing_rests_from_is_counted_once() -> None:
    leasing = Leasing()
    for place in range(2000):
        leasing.tell(f"ns/{place:04}", max_leases=0)
    operations = [Acquire(f"id-{place}", {}, f"target-{place}", MINUTE, COOLDOWN) for place in range(1000)]
    answers = decode_answers(apply_batch(leasing.table, operations, START))
    assert set(answers) == {NoMatch(2000, 2000, 0, 0)}
    assert len(answers) == 1000
