import json
from pathlib import Path

from app.dev.ports import LOOPBACK, PortBook
from tests.support.listening import listen


def test_ports_are_different_and_free(tmp_path: Path) -> None:
    ports = PortBook(tmp_path / "ports.json").choose(*(f"server-{number}" for number in range(20)))
    assert len(set(ports.values())) == 20
    for port in ports.values():
        listen(LOOPBACK, port).close()


def test_a_port_is_used_again_while_it_is_free(tmp_path: Path) -> None:
    first = PortBook(tmp_path / "ports.json").choose("a", "b")
    assert PortBook(tmp_path / "ports.json").choose("b", "a") == first


def test_a_port_that_a_stranger_holds_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    first = book.choose("a", "b")
    with listen(LOOPBACK, first["a"]):
        second = book.choose("a", "b")
    assert second["a"] != first["a"]
    assert second["b"] == first["b"]
    assert book.choose("a", "b") == second


def test_ports_of_other_names_are_kept(tmp_path: Path) -> None:
    book = PortBook(tmp_path / "ports.json")
    first = book.choose("a")
    assert book.choose("b").keys() == {"b"}
    assert book.choose("a") == first


def test_a_port_that_two_names_claim_goes_to_one(tmp_path: Path) -> None:
    port = PortBook(tmp_path / "ports.json").choose("a")["a"]
    (tmp_path / "ports.json").write_text(json.dumps({"a": port, "b": port}))
    ports = PortBook(tmp_path / "ports.json").choose("a", "b")
    assert ports["a"] == port
    assert ports["b"] != port


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    for damaged in ("{", "[]", '{"a": "many"}', '{"a": 70000}'):
        path.write_text(damaged)
        ports = PortBook(path).choose("a")
        assert json.loads(path.read_text()) == ports
