"""The server: what it answers, whom it lets in, and the command around it."""

from __future__ import annotations

import json
import re
import socket
import time
from typing import TYPE_CHECKING, Any

import httpx2 as httpx
import pytest
from starlette.testclient import TestClient
from tests.web.proxy import proxy
from tests.web.writer import REASON, Writer

from penstock.cli.main import main
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.hashing import bucket, xxhash64
from penstock.errors import PenstockError
from penstock.web.access import PublicUrl
from penstock.web.app import PARTS, Page, app
from penstock.web.board import Board

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-of-twenty-letters"  # noqa: S105 - of a test
WAIT_S = 60.0


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path / "ck")
    made.start()
    made.plan((0.5,))
    made.batch()
    return made


@pytest.fixture
def board(writer: Writer) -> Board:
    return Board([writer.checkpoint])


def client(board: Board, base: str = "http://127.0.0.1", **more: Any) -> TestClient:
    return TestClient(app(board, **more), base_url=base, follow_redirects=False)


def test_the_page_and_its_parts_are_served_and_nothing_may_be_asked_elsewhere(board: Board) -> None:
    for name, kind in PARTS.items():
        answer = client(board).get(f"/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "http" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert client(board).get("/").text == client(board).get("/index.html").text
    assert client(board).get("/../app.py").status_code == 404


def test_the_state_is_json_that_says_what_the_log_says(board: Board) -> None:
    (log,) = client(board).get("/api/state").json()["logs"]
    assert log["head"]["rows_shed"] == {REASON: 400}


def test_why_answers_by_key_and_refuses_in_one_line(board: Board) -> None:
    asked = client(board)
    identity = asked.get("/api/state").json()["logs"][0]["id"]
    assert asked.get("/api/why", params={"id": identity, "key": "42"}).json()["keep"] == 0.5
    known = {"id": identity, "key": "1"}
    null = asked.get("/api/why", params=known | {"null_key": "0"}).json()
    assert null["bucket"] == bucket(xxhash64(None), BUCKETS) != asked.get("/api/why", params=known).json()["bucket"]
    for bad in ({"id": "x", "key": "1"}, known | {"key": "x"}, known | {"batch": "x"}, known | {"arrived": "x"}):
        answer = asked.get("/api/why", params=bad)
        assert answer.status_code == 400
        assert len(answer.json()["error"].splitlines()) == 1
    assert asked.get("/api/why", params={"id": identity, "key": "1" * 2000}).status_code == 414


@pytest.mark.parametrize(
    ("host", "name", "status"),
    [
        ("127.0.0.1", "localhost:80", 200),
        ("127.0.0.1", "127.0.0.1", 200),
        ("127.0.0.1", "[::1]:7410", 200),
        ("127.0.0.1", "evil.example", 403),
        ("127.0.0.1", "192.0.2.7", 403),
        ("127.0.0.1", "127.0.0.1.evil.example", 403),
        ("127.0.0.1", "", 403),
        ("127.0.0.1", "[", 403),
        ("0.0.0.0", "192.0.2.7", 401),  # noqa: S104 - what is tested
        ("0.0.0.0", "evil.example", 403),  # noqa: S104
    ],
)
def test_a_name_that_is_not_its_own_is_refused(board: Board, host: str, name: str, status: int) -> None:
    token = None if host == "127.0.0.1" else TOKEN
    answer = client(board, host=host, token=token).get("/", headers={"host": name})
    assert answer.status_code == status
    assert "content-security-policy" in answer.headers


def test_a_token_opens_the_page_once_and_a_cookie_from_then_on(board: Board) -> None:
    visitor = client(board, token=TOKEN, port=7410)
    for path in ("/", "/api/state", "/api/why", "/api/events", "/dashboard.js", "/?token=wrong", "/?token="):
        assert visitor.get(path).status_code == 401
    moved = visitor.get(f"/?token={TOKEN}")
    assert (moved.status_code, moved.headers["location"]) == (303, "./")
    cookie = moved.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path" not in cookie  # the browser's default: below a proxy's path, other servers do not get it
    assert visitor.get("/api/state").status_code == 200
    assert TOKEN not in visitor.get("/").text


def test_a_token_may_come_as_a_header(board: Board) -> None:
    asked = client(board, token=TOKEN)
    assert asked.get("/api/state", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert asked.get("/api/state", headers={"authorization": "Bearer other"}).status_code == 401
    assert asked.get("/api/state", headers={"cookie": f"penstock_0={TOKEN}x"}).status_code == 401


@pytest.mark.parametrize("other", ['a={"x": 1}', "a=b c", "odd", "x[1]=2", "n=\xfc"])
def test_cookies_of_other_servers_on_this_host_do_no_harm(board: Board, other: str) -> None:
    cookie = f"{other}; penstock_7410={TOKEN}".encode("latin-1")
    answer = client(board, token=TOKEN, port=7410).get("/api/state", headers={"cookie": cookie})
    assert answer.status_code == 200


def test_events_bring_all_at_first_and_then_what_is_new(writer: Writer, board: Board) -> None:
    with Page(board, port=0).beside() as address, httpx.Client(timeout=WAIT_S) as asked:
        with asked.stream("GET", f"{address.url}api/events") as answer:
            lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            first = next(lines)
            assert first["first"]
            assert [point["n"] for point in first["logs"][0]["points"]] == [0]
            writer.batch()
            second = next(lines)
            assert not second["first"]
            assert [point["n"] for point in second["logs"][0]["points"]] == [1]
        assert asked.get(f"{address.url}api/state").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(address.url, timeout=WAIT_S)


def test_the_server_ends_while_somebody_listens(board: Board) -> None:
    with httpx.Client(timeout=WAIT_S) as asked, Page(board, port=0).beside() as address:
        answer = asked.send(asked.build_request("GET", f"{address.url}api/events"), stream=True)
        next(answer.iter_lines())
        began_s = time.monotonic()
    assert time.monotonic() - began_s < WAIT_S


def test_beyond_this_machine_a_token_is_made(board: Board) -> None:
    page = Page(board, host="0.0.0.0", port=0)  # noqa: S104 - what is tested
    other = Page(board, host="0.0.0.0", port=0)  # noqa: S104
    with page.beside() as address, other.beside() as another:
        assert address.token
        assert len(address.token) >= 24
        assert address.token != another.token
        assert address.url.endswith(f"?token={address.token}")
        url = f"http://127.0.0.1:{address.port}/"
        assert httpx.get(url, timeout=WAIT_S).status_code == 401
        assert httpx.get(url, params={"token": address.token}, timeout=WAIT_S).status_code == 303


@pytest.mark.parametrize("strips", [True, False])
def test_behind_a_proxy_everything_works_below_a_path(writer: Writer, board: Board, *, strips: bool) -> None:
    page = Page(board, port=0, public_url="http://localhost/x/y/")
    assert page.address.url == f"http://localhost/x/y/?token={page.address.token}"  # others reach it, so it has one
    with (
        page.beside() as address,
        proxy(address.port, "/x/y", strips=strips, preserves_host=True) as outside,
        httpx.Client(timeout=WAIT_S, follow_redirects=True) as asked,
    ):
        assert asked.get(f"{outside}/").status_code == 401
        opened = asked.get(f"{outside}/?token={address.token}")
        assert (opened.status_code, str(opened.url)) == (200, f"{outside}/")
        assert [cookie.path for cookie in asked.cookies.jar] == ["/x/y"]
        linked = re.findall(r'(?:src|href)="([^#"]+)"', opened.text)
        assert len(linked) > 3
        assert {asked.get(opened.url.join(one)).status_code for one in linked} == {200}
        identity = asked.get(f"{outside}/api/state").json()["logs"][0]["id"]
        found = asked.get(f"{outside}/api/why", params={"id": identity, "key": "42"})
        assert found.json()["keep"] == 0.5
        with asked.stream("GET", f"{outside}/api/events") as answer:
            lines = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
            assert next(lines)["first"]
            writer.batch()
            assert [point["n"] for point in next(lines)["logs"][0]["points"]] == [1]
        assert asked.get(f"{outside}/api/none").status_code == 404


def test_a_proxy_that_names_the_page_by_its_own_address_needs_no_setting(board: Board) -> None:
    with (
        Page(board, port=0).beside() as address,
        proxy(address.port, "/x/y", strips=True, preserves_host=False) as outside,
    ):
        assert httpx.get(f"{outside}/api/state", timeout=WAIT_S).status_code == 200


@pytest.mark.parametrize(
    ("name", "path", "status", "place"),
    [
        ("tools.example", "/x/y?token=1", 303, "/x/y/?token=1"),
        ("tools.example", "/x/y/?token=" + TOKEN, 303, "./"),
        ("tools.example", "/x/yes", 401, None),
        ("127.0.0.1", "/?token=" + TOKEN, 303, "./"),
        ("evil.example", "/x/y/?token=" + TOKEN, 403, None),
    ],
)
def test_a_public_address_is_accepted_beside_its_own(
    board: Board, name: str, path: str, status: int, place: str | None
) -> None:
    public = PublicUrl.from_text("https://tools.example/x/y/")
    answer = client(board, token=TOKEN, public=public).get(path, headers={"host": name})
    assert (answer.status_code, answer.headers.get("location")) == (status, place)
    if place == "./":
        assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    "url",
    [
        "tools.example/x",
        "/x/y",
        "ftp://tools.example/",
        "https://",
        "https://a/?b",
        "https://a/#b",
        "https://a:b/",
        "[",
    ],
)
def test_a_public_address_that_is_none_is_told(board: Board, url: str) -> None:
    with pytest.raises(PenstockError, match=r"^--public-url = .* is not usable: give the address at which a proxy"):
        Page(board, port=0, public_url=url)


def test_a_port_that_is_taken_is_told_or_another_is_found(board: Board) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PenstockError, match=rf"--port = '{port}' .* free at 127.0.0.1"):
            Page(board, port=port)
        with Page(board, port=port, any_port=True).beside() as address:
            assert address.port != port


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1", ""])
def test_an_address_that_is_not_this_machines_is_told(board: Board, host: str) -> None:
    with pytest.raises(PenstockError, match="--host"):
        Page(board, host=host, port=0)


@pytest.mark.parametrize("token", ["short", "with a space in its midst", "no-cookie-can-carry-\u03a9"])
def test_a_token_that_will_not_do_is_told_without_showing_it(board: Board, token: str) -> None:
    with pytest.raises(PenstockError, match="--token") as error:
        Page(board, port=0, token=token)
    assert token not in str(error.value)


class TestCommand:
    @pytest.fixture
    def run(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
        def run(*arguments: object) -> tuple[int, str, str]:
            monkeypatch.setattr("sys.argv", ["penstock", "dashboard", *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                main()
            said = capsys.readouterr()
            return int(end.value.code or 0), said.out, said.err

        return run

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ((), "--sample"),
            (("{folder}",), "CHECKPOINT"),
            (("{folder}/none",), "CHECKPOINT"),
            (("{folder}", "--sample"), "--sample"),
            (("{ck}", "--port", "x"), "port"),
            (("{ck}", "--port", "70000"), "port"),
            (("{ck}", "--host", "192.0.2.1"), "--host"),
            (("{ck}", "--token", "short"), "--token"),
            (("{ck}", "--public-url", "/x/y"), "--public-url"),
        ],
    )
    def test_a_mistake_is_one_line(
        self, run: Any, tmp_path: Path, writer: Writer, arguments: tuple[str, ...], told: str
    ) -> None:
        (tmp_path / "empty").mkdir()
        given = [one.format(folder=tmp_path / "empty", ck=writer.checkpoint) for one in arguments]
        code, _, err = run(*given)
        assert code == 2
        assert told in err
        assert len(err.splitlines()) == 1

    def test_json_holds_what_the_page_shows(self, run: Any, tmp_path: Path, writer: Writer) -> None:
        code, _, _ = run(writer.checkpoint, "--json", tmp_path / "state.json")
        assert code == 0
        (log,) = json.loads((tmp_path / "state.json").read_text())["logs"]
        assert log["head"]["rows_in"] == 1000

    def test_a_simulation_is_shown_like_a_query(self, run: Any, tmp_path: Path) -> None:
        code, _, _ = run("--sample", "--json", tmp_path / "state.json")
        assert code == 0
        logs = {one["name"]: one for one in json.loads((tmp_path / "state.json").read_text())["logs"]}
        guarded, unguarded = logs["guarded"]["head"], logs["unguarded"]["head"]
        assert guarded["rows_in"] == unguarded["rows_in"] == guarded["rows_kept"] + sum(guarded["rows_shed"].values())
        assert unguarded["rows_shed"] == {}
        assert max(one["mean_s"] for one in logs["unguarded"]["points"]) > 10.0
        assert max(one["mean_s"] for one in logs["guarded"]["points"]) < 5.0
