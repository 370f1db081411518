"""The page in a real browser: Debian's Chromium, without a screen."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.web.proxy import proxy
from tests.web.writer import REASON, Writer

from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.hashing import bucket, xxhash64
from penstock.federation.account import site_report
from penstock.messages.report import PlaceRows
from penstock.web.app import Page
from penstock.web.board import Board

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.web.app import Address

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
#: Limits are for machines that are busy with something else.
WAIT_MS = 60_000
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@dataclass
class Visit:
    """A page that is open, what it asked for and what went wrong."""

    page: Any
    address: Address
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def open(self, url: str | None = None) -> Any:
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", self._said)
        self.page.goto(url or self.address.url)
        return self.page

    def _said(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.wrong.append(message.text)


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path / "ck")
    made.start()
    made.plan((0.5, 1.0))
    made.batch()
    return made


@pytest.fixture
def address(writer: Writer) -> Iterator[Address]:
    with Page(Board([writer.checkpoint.parent]), port=0).beside() as made:
        yield made


@pytest.fixture(scope="module")
def context(chromium: Any) -> Any:
    """One profile for the pages of all tests: their addresses have other ports, so nothing is left of the one before.

    A page of a new profile takes a process of its own, which costs more than what it shows.
    """
    context = chromium.new_context(viewport=DESK, color_scheme="light")
    context.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    context.new_page()  # it stays, and so does the process
    return context


@pytest.fixture
def page(context: Any) -> Iterator[Any]:
    made = context.new_page()
    yield made
    made.close()
    context.clear_cookies()


@pytest.fixture
def visit(page: Any, address: Address) -> Visit:
    return Visit(page, address)


def tile(page: Any, name: str) -> Any:
    return page.locator(".tile", has=page.get_by_text(name, exact=True)).locator("dd")


def test_it_shows_the_log_and_goes_on_while_the_log_grows(visit: Visit, writer: Writer) -> None:
    page = visit.open()
    expect(page.locator(".hero h2")).to_contain_text("Within target, rows wait 1.5 s of 2 s")
    expect(tile(page, "Rows in")).to_contain_text("1,000 in 1 batch")
    expect(tile(page, "Shed")).to_contain_text("400")
    expect(page.get_by_role("region", name="Plans").locator("tbody tr")).to_have_count(1)
    for _ in range(3):
        writer.batch(wait_s=4.0)
    writer.plan((0.1, 1.0))
    expect(tile(page, "Rows in")).to_contain_text("4,000 in 4 batches")
    expect(page.locator(".hero h2")).to_contain_text("Above target")
    expect(page.get_by_role("region", name="Plans").locator("tbody tr")).to_have_count(2)
    writer.alarm("the target cannot be held")
    expect(page.get_by_role("list", name="Alarms")).to_contain_text("the target cannot be held")
    chart = page.get_by_role("img", name="Queuing latency. At")
    assert chart.locator("[data-series='mean wait']").get_attribute("d").count("L") == 3
    assert visit.wrong == []
    assert {url.split("/")[2] for url in visit.asked} == {f"127.0.0.1:{visit.address.port}"}


def test_text_of_the_data_stays_text(visit: Visit) -> None:
    page = visit.open()
    expect(page.get_by_role("region", name="Rows by reason")).to_contain_text(REASON)
    assert page.locator(".panel b", has_text="keys").count() == 0


def test_a_query_that_is_started_again_goes_on_and_one_that_begins_anew_replaces_it(
    visit: Visit, writer: Writer
) -> None:
    page = visit.open()
    writer.end()
    expect(page.locator(".facts")).to_contain_text("ended")
    writer.start()
    writer.batch()
    expect(page.locator(".facts")).to_contain_text("running")
    expect(tile(page, "Rows in")).to_contain_text("2,000 in 2 batches")
    shutil.rmtree(writer.checkpoint)
    expect(page.get_by_role("alert")).to_contain_text("is missing")
    expect(page.locator("#link")).to_have_text("connected, but the log is gone")
    expect(tile(page, "Rows in")).to_contain_text("2,000 in 2 batches")
    again = Writer(writer.checkpoint, query="another")
    again.start()
    again.batch(rows=50, kept=50)
    expect(tile(page, "Rows in")).to_contain_text("50 in 1 batch")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#link")).to_have_text("live")
    assert visit.wrong == []


def test_why_a_row_was_dropped_is_answered_from_the_keyboard(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("user", exact=True).press_sequentially("42")
    page.keyboard.press("Enter")
    answer = page.locator(".answer")
    expect(answer).to_contain_text("of this key")
    page.get_by_label("user", exact=True).fill("not a number")
    page.keyboard.press("Enter")
    expect(answer).to_contain_text("is not usable: give one of type bigint")


def test_an_empty_key_and_a_null_key_are_asked_for_and_an_answer_goes_with_its_question(
    visit: Visit, writer: Writer
) -> None:
    writer.start(key_types=("string",))
    page = visit.open()
    box, answer = page.get_by_label("user", exact=True), page.locator(".answer")
    box.focus()
    page.keyboard.press("Enter")
    expect(answer).to_contain_text("user = ''")
    box.fill("a")
    expect(answer).to_be_empty()
    page.get_by_label("user is null").check()
    with page.expect_response(lambda one: "/api/why" in one.url) as asked:
        page.get_by_role("button", name="Why?").click()
    assert asked.value.json()["bucket"] == bucket(xxhash64(None), BUCKETS)
    expect(answer).to_contain_text("user is null")
    assert visit.wrong == []


def test_charts_are_read_with_arrow_keys(visit: Visit, writer: Writer) -> None:
    writer.batch(wait_s=1.0)
    page = visit.open()
    expect(tile(page, "Rows in")).to_contain_text("2 batches")
    page.get_by_role("img", name="Queuing latency. At").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip:visible")).to_contain_text("batch 1longest wait: 2 smean wait: 1 s")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip:visible")).to_contain_text("batch 0")


def test_a_chart_of_one_batch_is_a_dot_and_of_a_query_that_was_dead_is_broken(visit: Visit, writer: Writer) -> None:
    page = visit.open()
    chart = page.get_by_role("region", name="Queuing latency").locator("svg")
    line = chart.locator("[data-series='mean wait']")
    expect(chart.locator(".alone")).to_have_count(2)  # of the mean wait and of the longest
    writer.batch()
    writer.now_s += 3.0
    writer.start()  # too soon to be noticed as a pause
    for _ in range(3):
        writer.batch()
    writer.now_s += 600.0
    writer.batch()
    writer.batch()
    expect(tile(page, "Rows in")).to_contain_text("7,000")
    expect(chart.locator(".alone")).to_have_count(0)
    assert [part.count("L") for part in line.get_attribute("d").split("M")[1:]] == [1, 2, 1]
    # Rows are dealt to the time since the batch before, but not to that in which the query was dead.
    rows = page.evaluate(
        """async ([points, starts]) => {
            const { grouped } = await import("/grouped.js");
            return grouped(points, 9, starts).map((one) => [one.from, one.t]);
        }""",
        [[{"t": time, "d": 2} for time in (102, 117, 132, 202)], [0, 199]],
    )
    assert rows == [[87, 102], [102, 117], [117, 132], [199, 202]]


def test_what_stands_beside_an_axis_is_where_it_says(visit: Visit) -> None:
    page = visit.open()
    asked = """async () => {
        const { valueTicks, timeTicks, SECONDS, COUNTS } = await import("/axis.js");
        const names = (all) => all.map(([, name]) => name);
        return [names(valueTicks(1, COUNTS)), names(valueTicks(700, SECONDS)), names(timeTicks(0, 151.2, 253)),
                timeTicks(1.7e9 + 1, 1.7e9 + 98, 600).map(([time]) => time - 1.7e9)];
    }"""
    values, minutes, simulated, times = page.evaluate(asked)
    assert values == ["0", "0.25", "0.5", "0.75", "1"]
    assert minutes == ["0", "5 min", "10 min"]
    assert simulated == ["0 s", "50 s", "100 s", "150 s"]
    assert times == [10, 25, 40, 55, 70, 85]  # 1.7e9 is 20 s after a full minute


def test_two_queries_are_two_tabs(visit: Visit, writer: Writer) -> None:
    other = Writer(writer.checkpoint.parent / "other", query="else")
    other.start()
    other.batch(rows=77, kept=77)
    page = visit.open()
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_count(2)
    page.get_by_role("tab", name="other").click()
    expect(tile(page, "Rows in")).to_contain_text("77 in 1 batch")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="ck")).to_have_attribute("aria-selected", "true")
    expect(tile(page, "Rows in")).to_contain_text("1,000 in 1 batch")


def test_it_fits_a_phone(visit: Visit, writer: Writer) -> None:
    visit.page.set_viewport_size(PHONE)
    writer.batch(rows_shed={"w" * 200: 400})
    page = visit.open()
    expect(tile(page, "Rows in")).to_contain_text("2 batches")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_tables_are_whole(visit: Visit, writer: Writer) -> None:
    visit.page.set_viewport_size(PHONE)
    for _ in range(5):
        writer.plan((0.5, 0.25))
    page = visit.open()
    for name in ("Plans", "Costs", "Rows by reason"):
        region = page.get_by_role("region", name=name, exact=True)
        expect(region).to_be_visible()
        assert region.evaluate("one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight")
    plans = page.get_by_role("region", name="Plans", exact=True)
    expect(plans.get_by_role("row")).to_have_count(7)  # with its heads, which are only heard
    expect(plans.get_by_role("cell", name="(1 of the key buckets keeps 25%, 1 keeps 50%)").first).to_be_visible()


def test_a_column_with_nothing_in_it_is_left_out(visit: Visit, writer: Writer) -> None:
    page = visit.open()
    heads = page.get_by_role("region", name="Plans", exact=True).get_by_role("columnheader")
    expect(heads).to_have_text(["decided", "plan", "keeps", "expects", "why"])
    writer.plan((0.5,), note="noted")
    expect(heads).to_have_text(["decided", "plan", "keeps", "expects", "why", "note"])


def test_what_is_of_late_and_what_is_in_all_is_told_apart(visit: Visit, writer: Writer) -> None:
    writer.now_s += 20.0
    for _ in range(3):
        writer.batch(rows=1000, kept=900)
    page = visit.open()
    expect(page.locator(".hero h2")).to_contain_text("90% of rows are kept")
    expect(tile(page, "Kept")).to_have_text("90%last 10 sin all: 83%, 3,300 rows")
    expect(tile(page, "Rows in")).to_contain_text("last 10 sin all: 4,000 in 4 batches since")


def test_light_and_dark_follow_the_system_until_the_switch_is_used(visit: Visit) -> None:
    page = visit.open()
    color = "getComputedStyle(document.body).backgroundColor"
    brightness = f"{color}.match(/[0-9]+/g).slice(0, 3).reduce((all, one) => all + Number(one), 0)"
    assert page.evaluate(brightness) > 600
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(brightness) < 150
    switch = page.get_by_role("button", name="Colours")
    switch.click()
    expect(switch).to_have_text("Light")
    assert page.evaluate(brightness) > 600
    page.emulate_media(color_scheme="light")
    switch.click()
    assert page.evaluate(brightness) < 150
    page.reload()
    expect(switch).to_have_text("Dark")
    assert page.evaluate(brightness) < 150


def test_fairness_is_shown_only_if_reports_tell_of_it(visit: Visit, writer: Writer) -> None:
    page = visit.open()
    expect(tile(page, "Rows in")).to_contain_text("1 batch")
    panel = page.get_by_role("region", name="Fairness between queries")
    expect(panel).to_be_hidden()
    writer.batch(sic={"<i>one</i>": 0.5})
    expect(panel).to_be_visible()
    expect(panel).to_contain_text("SIC <i>one</i>")


def test_fairness_is_between_all_queries_that_are_shown(visit: Visit, writer: Writer) -> None:
    other = Writer(writer.checkpoint.parent / "other", query="else", now_s=writer.now_s - 1.0)  # it ends first
    other.start()
    other.batch(sic={"poor": 0.2})
    writer.batch(sic={"rich": 0.6})
    page = visit.open()
    for name in ("ck", "other"):
        page.get_by_role("tab", name=name).click()
        panel = page.get_by_role("region", name="Fairness between queries")
        chart = panel.get_by_role("img", name="SIC poor 0.2, SIC rich 0.6, Jain's index 0.8.")
        expect(chart).to_be_visible()
    assert visit.wrong == []


def test_a_site_shows_its_rows_and_fairness_and_nothing_it_does_not_know(visit: Visit, writer: Writer) -> None:
    shutil.rmtree(writer.folder / "plans")
    (writer.folder / "account").mkdir()  # what a site has in place of a guard's plans
    writer.log.write(replace(site_report(1, 1e9, 2.0, {"part.cpu": PlaceRows(10, 7)}), sic={"avg": 0.7}))
    page = visit.open()
    expect(page.get_by_role("region", name="Fairness between queries")).to_be_visible()
    expect(tile(page, "Rows in")).to_contain_text("1,010 in 2 batches")
    expect(page.get_by_role("region", name="Why was this row dropped?")).to_be_hidden()
    expect(page.get_by_text("Mean wait", exact=True)).to_have_count(0)
    expect(page.get_by_role("cell", name="beyond its share: part.cpu")).to_be_visible()
    assert visit.wrong == []


def test_the_page_says_when_its_server_is_gone(page: Any, writer: Writer) -> None:
    with Page(Board([writer.checkpoint]), port=0).beside() as address:
        page.goto(address.url)
        expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#link")).to_have_text("the server does not answer")
    expect(tile(page, "Rows in")).to_contain_text("1,000")


def test_a_token_is_asked_for_and_leaves_the_address(page: Any, writer: Writer) -> None:
    with Page(Board([writer.checkpoint]), host="0.0.0.0", port=0).beside() as address:  # noqa: S104 - what is tested
        local = f"http://127.0.0.1:{address.port}/"
        page.goto(local)
        expect(page.locator("body")).to_contain_text("A token is needed")
        page.goto(f"{local}?token={address.token}")
        expect(tile(page, "Rows in")).to_contain_text("1,000")
        assert page.url == local


def test_it_works_behind_a_proxy_below_a_path(page: Any, writer: Writer) -> None:
    seen = Page(Board([writer.checkpoint]), port=0, public_url="http://localhost/x/y/")
    with seen.beside() as address, proxy(address.port, "/x/y", strips=True, preserves_host=True) as outside:
        visit = Visit(page, address)
        visit.open(f"{outside}/?token={address.token}")
        expect(tile(page, "Rows in")).to_contain_text("1,000")
        assert page.url == f"{outside}/"
        writer.batch()
        expect(tile(page, "Rows in")).to_contain_text("2,000 in 2 batches")
        why = page.get_by_role("region", name="Why was this row dropped?")
        why.get_by_role("textbox").first.fill("42")
        why.get_by_role("button", name="Why?").click()
        expect(why.get_by_role("status")).to_contain_text("of this key")
        assert visit.wrong == []
        assert {url for url in visit.asked if not url.startswith(f"{outside}/")} == set()


def test_a_link_on_a_page_elsewhere_opens_it(page: Any, writer: Writer) -> None:
    """As in a chat or a notebook: a cookie that is sent to this site's own requests alone would not come along."""
    with Page(Board([writer.checkpoint]), host="0.0.0.0", port=0).beside() as address:  # noqa: S104 - what is tested
        local = f"http://127.0.0.1:{address.port}/"
        link = f'<a href="{local}?token={address.token}">here</a>'
        page.route("http://chat.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
        page.goto("http://chat.example/")
        page.get_by_text("here").click()
        expect(tile(page, "Rows in")).to_contain_text("1,000")


def test_an_address_with_a_strange_end_shows_the_page(visit: Visit) -> None:
    page = visit.open(f"{visit.address.url}#%")
    expect(tile(page, "Rows in")).to_contain_text("1,000")
    assert visit.wrong == []
