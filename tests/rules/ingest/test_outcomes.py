from memories.rules.ingest.outcomes import (
    DUPLICATE,
    STORED,
    STORED_NOTICE,
    Result,
    Tally,
    Thing,
    quarantined,
    skipped,
)


def test_a_tally_is_complete_when_each_object_seen_has_ended() -> None:
    tally = Tally()
    assert tally.complete
    tally.see(Thing.MESSAGE, 2)
    tally.end(Thing.MESSAGE, STORED)
    assert not tally.complete
    tally.end(Thing.MESSAGE, skipped("why"))
    assert tally.complete
    tally.end(Thing.FILE, skipped("junk"))
    assert not tally.complete


def test_tallies_add_up() -> None:
    one, other = Tally(), Tally()
    one.see(Thing.MESSAGE)
    one.end(Thing.MESSAGE, STORED)
    other.see(Thing.MESSAGE, 2)
    other.end(Thing.MESSAGE, STORED_NOTICE)
    other.end(Thing.MESSAGE, quarantined("no ts"))
    one.add(other)
    assert one.complete
    assert one.count(Thing.MESSAGE, Result.STORED) == 2
    assert one.count(result=Result.QUARANTINED) == 1
    assert one.count() == 3


def test_as_json() -> None:
    tally = Tally()
    tally.see(Thing.MESSAGE, 3)
    tally.end(Thing.MESSAGE, DUPLICATE, 2)
    tally.end(Thing.MESSAGE, quarantined("no ts"))
    report = tally.as_json()
    assert list(report) == ["people", "channels", "messages", "files"]
    assert report["messages"] == {
        "seen": 3,
        "stored": 0,
        "updated": 0,
        "duplicate": 2,
        "skipped": 0,
        "quarantined": 1,
        "reasons": {"quarantined: no ts": 1},
    }
