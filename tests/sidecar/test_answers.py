"""What a sidecar remembers on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.contracts.crew import Answer
from agentos.kernel.ids import uuid7
from agentos.sidecar.answers import Answers


def answer(text: str = "yes") -> Answer:
    return Answer(message_id=uuid7(), state="answered", text=text)


def test_answers_wait_until_they_are_stored_over_restarts(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    one, two = answer("one"), answer("two")
    answers.put(one)
    answers.put(two)
    again = Answers(tmp_path)
    assert list(again.waiting) == [one.message_id, two.message_id]
    assert again.get(one.message_id) == one
    again.stored(one.message_id)
    assert list(again.waiting) == [two.message_id]
    assert list(Answers(tmp_path).waiting) == [two.message_id]
    # Still known, should its message come once more.
    assert Answers(tmp_path).get(one.message_id) == one


def test_only_the_last_stored_answers_are_kept(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    given = [answer(str(n)) for n in range(25)]
    for n, one in enumerate(given):
        answers.put(one)
        os.utime(tmp_path / "answers" / f"{one.message_id}.json", (n, n))
        answers.stored(one.message_id)
    assert [answers.get(one.message_id) is not None for one in given] == [False] * 5 + [True] * 20


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = answer("whole")
    Answers(tmp_path).put(one)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    answers = Answers(tmp_path)
    newer = Answer(message_id=one.message_id, state="failed")
    answers.put(newer)
    # This process knows better; the next one finds the old one whole.
    assert answers.get(one.message_id) == newer
    assert Answers(tmp_path).get(one.message_id) == one
    assert [path.name for path in (tmp_path / "answers").iterdir()] == [f"{one.message_id}.json"]


def test_questions_are_counted_over_restarts(tmp_path: Path) -> None:
    message = uuid7()
    assert Answers(tmp_path).asked(message) == 0
    assert Answers(tmp_path).count_asked(message) == 1
    assert Answers(tmp_path).count_asked(message) == 2
    assert Answers(tmp_path).asked(message) == 2
    (tmp_path / "asked" / str(message)).write_text("many")
    assert Answers(tmp_path).asked(message) == 0


def test_the_conversation_is_kept_and_its_absence_too(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    assert answers.conversation() is None
    answers.keep_conversation("talk")
    assert Answers(tmp_path).conversation() == "talk"
    answers.keep_conversation("")
    assert Answers(tmp_path).conversation() == ""


def test_what_lies_in_the_way_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    message = uuid7()
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / f"{message}.json").symlink_to("/etc/passwd")
    (tmp_path / "asked").mkdir()
    os.mkfifo(tmp_path / "asked" / str(message))
    (tmp_path / "conversation").mkdir()
    answers = Answers(tmp_path)
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        assert answers.get(message) is None
        assert answers.asked(message) == 0
        assert answers.conversation() is None
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before
    assert list(answers.waiting) == []
