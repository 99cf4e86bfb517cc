"""No decision is lost: crashes, a full disk, two pages, two servers, edits by hand, later runs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import subprocess
import sys
import threading

import pytest

from reviews import read_rows, write_table
from unspur.errors import StoreError, UsageError
from unspur.review import decision_log, review_folder
from unspur.review.decision_log import Decision
from unspur.review.review_folder import Review
from unspur.store import claim

CAT, DOG, LAST = "cat/00000.png", "dog/00001.png", "dog/00011.png"


@pytest.fixture
def folder(tmp_path):
    write_table(tmp_path / "run")
    return tmp_path / "run"


def decide(review, kind, *names, **more):
    return review.decide(Decision(0, kind, list(names), **more))


def lines(folder):
    return [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]


def test_every_decision_is_in_the_log_and_in_the_table(folder):
    review = Review(folder)
    decide(review, "confirm", CAT)
    decide(review, "clear", DOG)
    decide(review, "relabel", "cat/00002.png", label="dog")
    decide(review, "exclude", "dog/00003.png")
    decide(review, "note", CAT, note="=look")
    decide(review, "skip", "cat/00004.png")
    rows = read_rows(folder / "suspects.csv")
    assert rows[CAT]["flag"] == "suspect"
    assert rows[CAT]["note"] == "'=look"
    assert rows[DOG]["flag"] == ""
    assert (rows["cat/00002.png"]["flag"], rows["cat/00002.png"]["new_label"]) == ("", "dog")
    assert rows["dog/00003.png"]["flag"] == "exclude"
    assert rows["cat/00004.png"]["flag"] == "suspect"
    assert [line.get("kind") for line in lines(folder)[1:]] == [
        *("confirm", "clear", "relabel", "exclude", "note", "skip")
    ]
    assert [line["seq"] for line in lines(folder)[1:]] == [1, 2, 3, 4, 5, 6]


def test_a_review_resumes(folder):
    review = Review(folder)
    decide(review, "relabel", CAT, label="dog")
    decide(review, "skip", DOG)
    again = Review(folder)
    assert again.replay.states == review.replay.states
    assert again.replay.status == {0: "relabelled", 1: "skipped"}
    assert again.replay.counts()["decided"] == 1


def test_the_table_before_the_review_is_kept(folder):
    before = (folder / "suspects.csv").read_bytes()
    decide(Review(folder), "exclude", CAT)
    assert (folder / "suspects-before-review.csv").read_bytes() == before


def test_an_undo_is_logged_and_restores_the_row(folder):
    before = read_rows(folder / "suspects.csv")
    review = Review(folder)
    decide(review, "relabel", CAT, label="dog", page="one")
    review.undo("one")
    assert read_rows(folder / "suspects.csv") == before
    assert [line.get("kind") for line in lines(folder)[1:]] == ["relabel", "undo"]
    with pytest.raises(UsageError, match="nothing to undo"):
        review.undo("one")


def test_undo_keeps_the_decisions_of_other_pages(folder):
    review = Review(folder)
    decide(review, "exclude", CAT, page="one")
    decide(review, "clear", CAT, page="two")
    review.undo("one")
    assert review.replay.status[0] == "cleared"
    review.undo("two")
    assert review.replay.states[0] == review.replay.base[0]
    assert Review(folder).replay.states == review.replay.states


def test_a_decision_that_is_sent_twice_counts_once(folder):
    review = Review(folder)
    first = decide(review, "exclude", CAT, key="k", page="p")
    assert decide(review, "exclude", CAT, key="k", page="p") == first
    review.undo("p", key="u")
    assert review.undo("p", key="u").kind == "exclude"
    assert len(lines(folder)) == 3


def test_a_crash_before_the_table_is_written_is_repaired(folder, monkeypatch):
    review = Review(folder)
    decide(review, "clear", CAT)
    monkeypatch.setattr(review, "write_table", lambda: os._exit)
    decide(review, "exclude", DOG)
    assert read_rows(folder / "suspects.csv")[DOG]["flag"] == "suspect"
    Review(folder)
    assert read_rows(folder / "suspects.csv")[DOG]["flag"] == "exclude"
    assert [line.get("kind") for line in lines(folder)[1:]] == ["clear", "exclude"]


def test_an_incomplete_line_is_removed(folder):
    review = Review(folder)
    decide(review, "clear", CAT)
    with (folder / "review.jsonl").open("ab") as file:
        file.write(b'{"seq": 2, "kind": "excl')
    again = Review(folder)
    decide(again, "exclude", DOG)
    assert [line.get("kind") for line in lines(folder)[1:]] == ["clear", "exclude"]


def test_a_full_disk_changes_nothing_and_the_decision_can_be_repeated(folder, monkeypatch):
    review = Review(folder)
    decide(review, "clear", CAT)
    before, logged = (folder / "suspects.csv").read_bytes(), (folder / "review.jsonl").read_bytes()

    def full(handle, data):
        os.write(handle, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(decision_log, "write_synced", full)
        with pytest.raises(OSError, match="No space"):
            decide(review, "exclude", DOG, key="k")
    assert (folder / "review.jsonl").read_bytes() == logged
    assert (folder / "suspects.csv").read_bytes() == before
    assert 1 not in review.replay.status
    decide(review, "exclude", DOG, key="k")
    assert Review(folder).replay.status[1] == "excluded"


def test_a_table_that_cannot_be_written_loses_no_decision(folder, monkeypatch):
    review = Review(folder)

    def full(path, data):
        raise StoreError(f"cannot write {path}: No space left on device.")

    with monkeypatch.context() as patch:
        decide(review, "skip", CAT)
        patch.setattr(review_folder, "write_bytes", full)
        decide(review, "exclude", CAT)
    assert "No space left" in review.table_problem
    decide(review, "exclude", DOG)
    assert review.table_problem == ""
    rows = read_rows(folder / "suspects.csv")
    assert (rows[CAT]["flag"], rows[DOG]["flag"]) == ("exclude", "exclude")


def test_two_servers_share_their_decisions(folder):
    one, two = Review(folder), Review(folder)
    decide(one, "exclude", CAT)
    decide(two, "clear", DOG)
    decide(one, "relabel", LAST, label="cat")
    two.refresh()
    assert one.replay.states[:2] == two.replay.states[:2]
    assert [line["seq"] for line in lines(folder)[1:]] == [1, 2, 3]
    rows = read_rows(folder / "suspects.csv")
    assert [rows[name]["flag"] for name in (CAT, DOG)] == ["exclude", ""]
    assert rows[LAST]["new_label"] == "cat"


PROGRAM = """
import sys
from pathlib import Path
from unspur.review.decision_log import Decision
from unspur.review.review_folder import Review
review = Review(Path(sys.argv[1]))
for i in range(int(sys.argv[2]), 40, 2):
    review.decide(Decision(0, "exclude", [f"{'cat' if i % 2 == 0 else 'dog'}/{i:05d}.png"]))
"""


def test_two_processes_at_once_lose_no_decision(tmp_path):
    folder = tmp_path / "run"
    write_table(folder, 40)
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    both = [subprocess.Popen([*command, str(start)]) for start in (0, 1)]
    assert [process.wait() for process in both] == [0, 0]
    assert [line["seq"] for line in lines(folder)[1:]] == list(range(1, 41))
    assert {row["flag"] for row in read_rows(folder / "suspects.csv").values()} == {"exclude"}


def test_threads_of_one_server_lose_no_decision(folder):
    review = Review(folder)
    names = review.replay.table.names
    threads = [threading.Thread(target=decide, args=(review, "exclude", name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(folder)) == 1 + len(names)
    assert set(Review(folder).replay.status.values()) == {"excluded"}


def edit(folder, before, after):
    path = folder / "suspects.csv"
    path.write_text(path.read_text().replace(before, after))


def test_manual_edits_of_the_table_are_logged(folder):
    review = Review(folder)
    decide(review, "clear", CAT)
    edit(
        folder, "dog/00001.png,dog,0.9167,cat,suspect,", "dog/00001.png,dog,0.9167,cat,exclude,seen"
    )
    decide(review, "exclude", LAST)
    edit(folder, "cat/00002.png,cat,0.8333,dog,suspect,", "cat/00002.png,cat,0.8333,dog,,")
    again = Review(folder)
    assert again.replay.status == {0: "cleared", 1: "edited", 11: "excluded", 2: "edited"}
    rows = read_rows(folder / "suspects.csv")
    assert (rows[DOG]["flag"], rows[DOG]["note"]) == ("exclude", "seen")
    assert rows["cat/00002.png"]["flag"] == ""
    assert [line.get("kind") for line in lines(folder)[1:]] == ["clear", "edit", "exclude", "edit"]


def test_a_log_of_a_replaced_table_is_renamed(folder):
    review = Review(folder)
    decide(review, "exclude", CAT)
    decided, logged = (folder / "suspects.csv").read_bytes(), (folder / "review.jsonl").read_bytes()
    os.rename(folder / "suspects.csv", folder / "suspects-1.csv")  # as a run does
    write_table(folder, 20)
    with pytest.raises(StoreError, match="replaced"):
        decide(review, "exclude", DOG)
    later = Review(folder)
    assert later.replay.counts()["images"] == 20
    assert later.replay.status == {}
    assert (folder / "suspects-1.csv").read_bytes() == decided
    assert (folder / "review-1.jsonl").read_bytes() == logged
    decide(later, "clear", CAT)
    assert len(lines(folder)) == 2


def test_read_only_writes_nothing(folder):
    decide(Review(folder), "clear", CAT)
    edit(folder, "0.9167,cat,suspect,", "0.9167,cat,exclude,")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    review = Review(folder, read_only=True)
    assert review.replay.states[1].flag == "exclude"
    with pytest.raises(UsageError, match="read-only"):
        decide(review, "exclude", DOG)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_decisions_are_refused_while_a_run_writes_the_folder(folder):
    review = Review(folder)
    with claim(folder), pytest.raises(UsageError, match="is being written by process"):
        decide(review, "exclude", CAT)
    assert not (folder / "review.jsonl").exists()


def test_invalid_decisions_change_nothing(folder):
    review = Review(folder)
    for wrong in (Decision(0, "exclude", ["x"]), Decision(0, "relabel", [CAT], label="cat")):
        with pytest.raises(UsageError):
            review.decide(wrong)
    assert not (folder / "review.jsonl").exists()


def test_a_damaged_log_is_an_error(folder):
    decide(Review(folder), "clear", CAT)
    with (folder / "review.jsonl").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(StoreError, match=r"review\.jsonl is damaged"):
        Review(folder)


@pytest.mark.parametrize("seed", range(5))
def test_random_decisions_with_crashes_end_as_without_crashes(tmp_path, seed):
    """Two servers decide and undo at random; some crash between log and table, or within a line."""
    rng = random.Random(seed)
    write_table(tmp_path / "run")
    folder = tmp_path / "run"
    reviews = [Review(folder), Review(folder)]
    kinds = ("confirm", "clear", "exclude", "skip", "relabel", "note")
    for step in range(60):
        which = rng.randrange(2)
        review, kind = reviews[which], rng.choice(kinds)
        names = rng.sample(list(review.replay.table.names), rng.randint(1, 3))
        dies = rng.random() < 0.15
        if dies:
            review.write_table = lambda: None
        page = f"page {which}"
        if rng.random() < 0.2:
            with contextlib.suppress(UsageError):
                review.undo(page)
        else:
            decide(review, kind, *names, label="<i>owl</i>", note=f"n{step}", page=page)
        if dies:
            if rng.random() < 0.5:
                with (folder / "review.jsonl").open("ab") as file:
                    file.write(b'{"seq":')
            reviews[which] = Review(folder)
    last = Review(folder)
    assert [line["seq"] for line in lines(folder)[1:]] == list(range(1, len(lines(folder))))
    assert not [line for line in lines(folder) if line.get("kind") == "edit"]
    for review in reviews:
        review.refresh()
        assert review.replay.states == last.replay.states
    expected = {
        name: (state.flag, state.note)
        for name, state in zip(last.replay.table.names, last.replay.states, strict=True)
    }
    rows = read_rows(folder / "suspects.csv")
    assert {name: (row["flag"], row["note"]) for name, row in rows.items()} == expected
