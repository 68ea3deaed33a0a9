import pytest

from memories.rules.memory.kinds import Kind, kind_named, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[ACTION] Cara to ask the council", Kind.TASK),
        ("TODO: does Bolt read the old files?", Kind.TASK),
        ("【宿題】資料", Kind.TASK),
        ("AGREED: the release needs a test", Kind.DECISION),
        ("The import fails due to the parser of version 2.", Kind.STATUS),
        ("The audit is due in May.", Kind.TASK),
        ("The report is due on Friday", Kind.TASK),
        ("The report is due to ship on Friday", Kind.STATUS),
        ("Bolt is due to be released in May", Kind.STATUS),
        ("Decision needed: who signs off the budget?", Kind.QUESTION),
        ("Decided on the action plan: start on Monday", Kind.DECISION),
        ("Can somebody review https://example.com/pr/12?", Kind.QUESTION),
        ("仕様は新仕様 (https://example.com/spec)に決定しました", Kind.DECISION),
        ("The plan of Bolt: https://wiki.example/decision-and-tasks-due", Kind.STATUS),
        ("Cara will ask whether the server can go.", Kind.TASK),
        ("The team decided to keep Bolt.", Kind.DECISION),
        ("Ben chose Bolt instead of Crate.", Kind.DECISION),
        ("Ann will move the backups by Friday.", Kind.TASK),
        ("Ben needs to tell the press office.", Kind.TASK),
        ("It is unclear who pays for the support.", Kind.QUESTION),
        ("Cara asked whether the server can go.", Kind.QUESTION),
        ("Who pays for the support?", Kind.QUESTION),
        ("The old server was switched off and the release shipped.", Kind.EVENT),
        ("Bolt costs 1,200 dollars a year.", Kind.STATUS),
        ("バックアップにはボルト社を使うことに決まった。", Kind.DECISION),
        ("公開は来月に延期された。", Kind.DECISION),
        ("田中さんが金曜日までに広報へ連絡する。", Kind.TASK),
        ("予算の担当者は未定。", Kind.QUESTION),
        ("サーバーが停止しました。", Kind.EVENT),
        ("ボルト社は年間12万円。", Kind.STATUS),
    ],
)
def test_kinds_by_cue_words(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("Decision", Kind.DECISION), ("**Decisions:**", Kind.DECISION), ("Action items", Kind.TASK),
        ("Open questions", Kind.QUESTION), ("Key facts", Kind.STATUS), ("What happened", Kind.EVENT),
        ("決定事項", Kind.DECISION), ("タスク：", Kind.TASK), ("未解決の質問", Kind.QUESTION),
        ("Backups", None), ("", None),
    ],
)  # fmt: skip
def test_kinds_by_label(label: str, kind: Kind | None) -> None:
    assert kind_named(label) == kind
