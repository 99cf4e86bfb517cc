"""The server under foreign requests: other hosts, other pages, other files, invalid orders."""

from __future__ import annotations

import json
import socket

import pytest

pytest.importorskip("uvicorn", reason="the review is served with the extra 'review'")

from reviews import make_desk, read_rows, request, serving, write_table
from unspur.errors import StoreError, UnspurError
from unspur.review import decision_log, review_folder
from unspur.review.image_sources import FileImages, NoImages, _paths_by_name
from unspur.review.review_server import _bind, need_server


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("review") / "run"
    write_table(folder)
    return make_desk(folder)


@pytest.fixture(scope="module")
def url(desk):
    with serving(desk) as address:
        yield address


def answer(url, path, **values):
    status, _, body = request(f"{url}{path}", **values)
    return status, json.loads(body)


def test_the_page_and_its_files_are_served_with_a_strict_policy(url):
    for name in ("", "review.css", "review.js", "icon.svg"):
        status, headers, body = request(url + name)
        assert status == 200
        assert body
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "script-src 'self'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8471"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["", "api/start", "thumbnail/0"])
def test_other_hosts_and_origins_are_refused(url, path, headers):
    status, _, body = request(url + path, **headers)
    assert status == 403
    assert b"cat" not in body


def test_without_the_token_nothing_is_served(url):
    base = url.rsplit("/", 2)[0]
    for path in ("/", "/api/start", "/wrong/api/start", "/thumbnail/0", "//api/start"):
        status, _, body = request(base + path)
        assert status == 403
        assert b"token" in body


@pytest.mark.parametrize(
    "headers",
    [{"Origin": None}, {"Content_Type": "text/plain"}, {"Origin": "http://127.0.0.1:1"}],
)
def test_orders_of_other_pages_are_refused(url, desk, headers):
    order = {"kind": "exclude", "rows": [0]}
    assert request(f"{url}api/decide", "POST", order, **headers)[0] == 403
    assert desk.review.replay.status == {}


@pytest.mark.parametrize(
    "path",
    [
        "..%2f..%2fetc%2fpasswd",
        "../../../../etc/passwd",
        "review.py",
        "thumbnail/../../etc/passwd",
        "thumbnail/99999",
        "thumbnail/-1",
        "look/debiased/0",
        "report",
    ],
)
def test_no_other_file_is_served(url, path):
    status, _, body = request(url + path)
    assert status in (400, 403, 404)
    assert b"root:" not in body


def test_images_are_encoded_again(url):
    status, headers, body = request(f"{url}thumbnail/0")
    assert (status, headers["content-type"]) == (200, "image/jpeg")
    assert body[:2] == b"\xff\xd8"


def test_only_images_of_the_data_are_shown(tmp_path, desk):
    (tmp_path / "data" / "cat").mkdir(parents=True)
    (tmp_path / "secret.png").write_bytes(b"secret")
    known = _paths_by_name(tmp_path / "data")
    assert known.get("../secret.png") is None
    with pytest.raises(UnspurError, match="no longer in the data"):
        FileImages([None]).show(0, 10)


@pytest.mark.parametrize(
    "order",
    [
        {"kind": "exclude"},
        {"kind": "exclude", "rows": []},
        {"kind": "exclude", "rows": [99]},
        {"kind": "exclude", "rows": ["cat/00000.png"]},
        {"kind": "exclude", "rows": [True]},
        {"kind": "undo", "rows": [0]},
        {"kind": "edit", "rows": [0]},
        {"kind": "exclude", "selection": "1", "ranges": [[0, "x"]]},
        {"kind": "exclude", "selection": "1", "ranges": 3},
        {"kind": "relabel", "rows": [0], "label": "horse"},
        {"kind": "relabel", "rows": [0], "label": "cat"},
        ["exclude"],
    ],
)
def test_invalid_orders_are_refused_with_a_message(url, desk, order):
    desk.selections.add([0, 1])
    status, content = answer(url, "api/decide", method="POST", body=order)
    assert status == 400
    assert content["error"]
    assert desk.review.replay.status == {}


@pytest.mark.parametrize("path", ["api/changes?since=%C2%B2", f"thumbnail/{'9' * 5000}"])
def test_odd_numbers_are_refused_with_a_message(url, path):
    status, content = answer(url, path)
    assert status in (400, 403)
    assert content["error"]


def test_text_that_is_not_unicode_is_replaced(tmp_path):
    write_table(tmp_path / "run")
    with serving(make_desk(tmp_path / "run")) as url:
        order = {"kind": "note", "rows": [0], "note": "a\ud800b"}
        status, content = answer(url, "api/decide", method="POST", body=order)
        assert (status, content["rows"][0]["note"]) == (200, "a?b")


def test_a_forgotten_selection_has_status_410(url):
    assert answer(url, "api/rows?selection=99&from=0&to=5")[0] == 410


def test_rows_come_in_pages_that_decisions_do_not_change(tmp_path):
    write_table(tmp_path / "run", 1200, suspects=1200)
    desk = make_desk(tmp_path / "run")
    with serving(desk) as url:
        _, found = answer(url, "api/select?shown=open")
        assert found["total"] == 1200
        page = f"api/rows?selection={found['selection']}&from=0&to=5000"
        assert len(answer(url, page)[1]["rows"]) == 1000
        about = {"selection": found["selection"], "ranges": [[0, 2], [1199, 1300]]}
        status, content = answer(
            url, "api/decide", method="POST", body={"kind": "exclude", **about}
        )
        assert status == 200
        assert [row["row"] for row in content["rows"]] == [0, 1, 1199]
        assert content["counts"]["decided"] == 3
        assert [row["status"] for row in answer(url, page)[1]["rows"]][:3] == ["excluded"] * 2 + [
            "open"
        ]
        assert answer(url, "api/changes?since=0")[1]["rows"][0]["status"] == "excluded"


def test_a_full_disk_is_reported_in_the_response(tmp_path, monkeypatch):
    write_table(tmp_path / "run")
    desk = make_desk(tmp_path / "run")

    def full(handle, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decision_log, "write_synced", full)
    with serving(desk) as url:
        order = {"kind": "exclude", "rows": [0], "key": "k"}
        status, content = answer(url, "api/decide", method="POST", body=order)
        assert status == 507
        assert "The disk is full" in content["error"]
        monkeypatch.undo()
        assert answer(url, "api/decide", method="POST", body=order)[0] == 200
    assert read_rows(tmp_path / "run" / "suspects.csv")["cat/00000.png"]["flag"] == "exclude"


def test_a_disk_that_is_full_from_the_start_is_reported(tmp_path, monkeypatch):
    write_table(tmp_path / "run")

    def full(path, data):
        raise StoreError("cannot write: No space left. Finished stages are kept.")

    monkeypatch.setattr(review_folder, "write_bytes", full)
    with serving(make_desk(tmp_path / "run")) as url:
        order = {"kind": "exclude", "rows": [0]}
        status, content = answer(url, "api/decide", method="POST", body=order)
    assert (status, content["error"]) == (
        507,
        "cannot write: No space left. This page keeps the decision.",
    )


def test_a_page_of_a_replaced_table_cannot_change_the_new_table(tmp_path):
    write_table(tmp_path / "run")
    desk = make_desk(tmp_path / "run")
    desk.find_images = lambda table: NoImages(f"{len(table)} rows")
    with serving(desk) as url:
        old = answer(url, "api/start")[1]["table"]
        write_table(tmp_path / "run", 20)
        assert answer(url, "api/start")[1]["counts"]["images"] == 20  # another page
        order = {"kind": "exclude", "rows": [0], "table": old}
        status, content = answer(url, "api/decide", method="POST", body=order)
        assert status == 409
        assert "Reload the page" in content["error"]
        assert json.loads(request(f"{url}thumbnail/0")[2])["error"] == "20 rows"
    assert not (tmp_path / "run" / "review.jsonl").exists()


def test_read_only_refuses_orders(tmp_path):
    write_table(tmp_path / "run")
    with serving(make_desk(tmp_path / "run", read_only=True)) as url:
        for path in ("api/decide", "api/debias/start"):
            body = {"kind": "exclude", "rows": [0]}
            status, content = answer(url, path, method="POST", body=body)
            assert status == 400
            assert "read-only" in content["error"]


def test_the_server_listens_on_this_computer_only():
    with _bind(0) as listening, _bind(0) as other:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert other.getsockname()[1] != listening.getsockname()[1]
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        with pytest.raises(UnspurError, match="Choose another --port"):
            _bind(busy.getsockname()[1])


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    with pytest.raises(UnspurError, match=r"pip install 'unspur\[review\]'"):
        need_server()
