"""The comparison of two versions."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memories.models import MemoryVersion, NewVersion
from memories.rules.memory.lines import Line, Origin
from memories.views.memory.versions import PAIRS_SHOWN
from tests.factories import (
    MONDAY,
    make_version,
)
from tests.views.conftest import Cast
from tests.views.memory.test_versions import HTMX, version_of

pytestmark = pytest.mark.slow


def test_a_comparison_shows_the_changes(cast: Cast) -> None:
    old, new = version_of(cast, 1), version_of(cast, 2)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "We launch on <del>Friday</del><ins>Monday</ins>" in page
    assert "1 change: 0 added, 0 removed, 1 reworded" in page
    assert 'removed “<span lang="en">Friday</span>”' in page
    assert 'added “<span lang="en">Monday</span>”' in page


def test_each_change_has_the_author_of_the_line(cast: Cast) -> None:
    cast.memory.revise("- We launch on Tuesday\n- Aya owns iOS", by=None, based_on=2)
    cast.memory.revise("- We launch on Thursday\n- Tom tests", by=None, based_on=3)
    old, new = version_of(cast, 3).pk, version_of(cast, 4).pk
    path = f"/diff/{old}..{new}/"
    page = cast.clients["member"].get(path).content.decode()
    text, words = page[page.index('<ul class="diff">') :].split("</ul>", 1)
    assert text.count("edited by a person, v4") == 2  # one reworded, one added
    assert "<del>Aya owns iOS</del>" in text and text.count("by the model, ") == 1
    assert f'href="/v/{version_of(cast, 2).pk}/"' in text  # where the removed line came from
    assert words.count("edited by a person, v4") == 2 and words.count("by the model, ") == 1
    split = cast.clients["member"].get(f"{path}?view=split").content.decode()
    table = split[split.index('<table class="split">') : split.index("</table>")]
    assert table.count("by the model, ") == 1
    assert table.count("edited by a person, v3") == 1 and table.count("edited by a person, v4") == 2


@pytest.mark.parametrize("view", ["inline", "split"])
def test_each_change_links_to_its_messages(cast: Cast, view: str) -> None:
    first_source, second_source = cast.messages[2:4]
    old = make_version(memory=cast.memory, text="- It was said", sources=[first_source])
    new = make_version(memory=cast.memory, text="- Something else", sources=[second_source])
    address = f"/diff/{old.pk}..{new.pk}/?view={view}"
    page = cast.clients["member"].get(address).content.decode()
    assert "1 added, 1 removed" in page
    for message, version in ((first_source, old), (second_source, new)):
        place = f"messages/?around={message.ts}&amp;v={version.pk}#msg-{message.ts}"
        assert f'<a class="chip" href="/w/team/c/C0PUBLIC/{place}"' in page


def test_only_the_changed_japanese_word_is_marked(cast: Cast) -> None:
    text = (
        "- 同期の不具合は在庫数が多い店舗で起きると分かり、来週の水曜日までに修正する予定です。" * 3
    )
    old = make_version(memory=cast.memory, text=text)
    new = make_version(memory=cast.memory, text=text.replace("水曜日", "金曜日", 1))
    page = cast.clients["member"].get(f"/diff/{old.pk}..{new.pk}/").content.decode()
    assert "来週の<del>水</del><ins>金</ins>曜日" in page


def test_both_texts_side_by_side(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    page = cast.clients["member"].get(f"/diff/{old}..{new}/?view=split").content.decode()
    assert page.count('<table class="split">') == 1
    assert "<del>Friday</del>" in page and "<ins>Monday</ins>" in page
    assert 'class="unsplit"' in page  # where there is no room
    plain = cast.clients["member"].get(f"/diff/{old}..{new}/").content.decode()
    assert 'class="split"' not in plain and '?view=split"' in plain
    picked = cast.clients["member"].get(f"/diff/{old}..{old}/?from={new}&to={old}&view=split")
    assert picked["Location"] == f"/diff/{old}..{new}/?view=split"


def test_a_comparison_by_htmx_is_a_part_with_its_title(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    client = cast.clients["member"]
    page = client.get(f"/diff/{old}..{new}/").content.decode()
    assert page.count('hx-push-url="true"') == 2  # the view, and the pair
    picked = client.get(f"/diff/{new}..{new}/?from={old}&to={new}", headers=HTMX)
    part = client.get(picked["Location"], headers=HTMX).content.decode()
    assert "<html" not in part and part.startswith("<title>v1 to v2, #launch")
    assert (
        'id="diff"' in part and 'tabindex="-1" autofocus>v1' in part and "<ins>Monday</ins>" in part
    )
    assert 'tabindex="-1" autofocus>v1' not in page


@pytest.mark.nightly("growth: fills tables, and counts again")
def test_queries_do_not_grow_with_rows(cast: Cast) -> None:
    """Lines, sources and versions to choose from are added."""
    counts = []
    for many in (10, 100):
        for n in range(many):
            make_version(memory=cast.memory, text=f"- version {n} of {many}")
        text = "\n".join(f"- line {n} of {many}" for n in range(many))
        made = make_version(memory=cast.memory, text=text, sources=cast.messages)
        for path in (
            f"/v/{made.pk}/",
            f"/v/{made.pk}/sources/",
            f"/diff/{version_of(cast, 1).pk}..{made.pk}/",
        ):
            with CaptureQueriesContext(connection) as queries:
                assert cast.clients["editor"].get(path).status_code == 200
            counts.append(len(queries))
    assert counts[:3] == counts[3:]


def test_different_facts_of_equal_texts_are_listed(cast: Cast) -> None:
    old = version_of(cast, 1)
    page = cast.clients["member"].get(f"/diff/{old.pk}..{old.pk}/").content.decode()
    assert "The text is the same. Only its details differ." in page
    assert "facts-title" not in page
    made = make_version(memory=cast.memory, text=old.content, until=MONDAY)
    MemoryVersion.objects.filter(pk=made.pk).update(
        origin="restore", restored_from=old, source_message_count=old.source_message_count
    )
    page = cast.clients["member"].get(f"/diff/{old.pk}..{made.pk}/").content.decode()
    facts = page[page.index("facts-title") : page.index("pair-title")]
    assert "The text is the same. Only its details differ." in page
    assert "restored from v1" in facts
    assert re.findall("<dt>([^<]+)", facts) == ["Written by", "Reason", "Time"]


def test_another_pair_has_its_own_url(cast: Cast) -> None:
    old, new = version_of(cast, 1).pk, version_of(cast, 2).pk
    response = cast.clients["member"].get(f"/diff/{old}..{old}/?from={new}&to={old}")
    assert (response.status_code, response["Location"]) == (302, f"/diff/{old}..{new}/")


@pytest.mark.nightly("quicker tests run the same lines")
def test_older_versions_are_reached_by_links(cast: Cast) -> None:
    for i in range(PAIRS_SHOWN + 60):
        draft = NewVersion(lines=[Line(f"- {i}", Origin.MODEL)], origin=Origin.MODEL)
        cast.memory.add_version(draft, expected_head=i + 2)
    numbers = dict(cast.memory.versions.values_list("number", "pk"))
    last = max(numbers)
    page = cast.clients["member"].get(f"/diff/{numbers[3]}..{numbers[4]}/").content.decode()
    for older, newer in ((2, 3), (4, 5)):
        assert f'href="/diff/{numbers[older]}..{numbers[newer]}/"' in page
    choice = page[page.index('class="pair-form"') :]
    checked = re.findall(r'name="(\w+)" value="(\d+)"[^>]* checked', choice)
    assert sorted(checked) == [("from", str(numbers[3])), ("to", str(numbers[4]))]
    offered = [int(n) for n in re.findall(r">v(\d+)</th>", choice)]
    assert offered == [last, *range(4 + PAIRS_SHOWN // 2, 0, -1)]
    page = cast.clients["member"].get(f"/diff/{numbers[1]}..{numbers[last]}/").content.decode()
    offered = [int(n) for n in re.findall(r">v(\d+)</th>", page)]
    assert offered == [*range(last, last - PAIRS_SHOWN, -1), 1]
    assert "← older" not in page and "newer →" not in page
