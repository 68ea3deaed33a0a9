from memories.rules.ingest.outcomes import (
    DUPLICATE,
    STORED,
    STORED_NOTICE,
    ObjectType,
    Result,
    Tally,
    quarantined,
    skipped,
)


def test_a_tally_is_complete_when_each_object_seen_has_an_outcome() -> None:
    tally = Tally()
    assert tally.is_complete
    tally.count_seen(ObjectType.MESSAGE, 2)
    tally.count_outcome(ObjectType.MESSAGE, STORED)
    assert not tally.is_complete
    tally.count_outcome(ObjectType.MESSAGE, skipped("why"))
    assert tally.is_complete
    tally.count_outcome(ObjectType.FILE, skipped("junk"))
    assert not tally.is_complete


def test_tallies_add_up() -> None:
    tally, later = Tally(), Tally()
    tally.count_seen(ObjectType.MESSAGE)
    tally.count_outcome(ObjectType.MESSAGE, STORED)
    later.count_seen(ObjectType.MESSAGE, 2)
    later.count_outcome(ObjectType.MESSAGE, STORED_NOTICE)
    later.count_outcome(ObjectType.MESSAGE, quarantined("no ts"))
    tally.add(later)
    assert tally.is_complete
    assert tally.count(ObjectType.MESSAGE, Result.STORED) == 2
    assert tally.count(result=Result.QUARANTINED) == 1
    assert tally.count() == 3


def test_as_json() -> None:
    tally = Tally()
    tally.count_seen(ObjectType.MESSAGE, 3)
    tally.count_outcome(ObjectType.MESSAGE, DUPLICATE, 2)
    tally.count_outcome(ObjectType.MESSAGE, quarantined("no ts"))
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
