"""From logs to what the page shows, without a server."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.web.writer import REASON, Writer

from penstock.cli import dashboard as cli_dashboard
from penstock.core.control.backlog import age_thresholds, rule
from penstock.core.control.batch_size import TOO_MANY
from penstock.core.control.bucket_costs import BUCKETS
from penstock.core.control.gate import TOO_OLD, coins, gate_salt, judge
from penstock.core.hashing import bucket, xxhash64
from penstock.errors import PenstockError
from penstock.messages.claim import Claim
from penstock.messages.plan import Binding
from penstock.store.logs import BindingLog
from penstock.store.report_log import journal_path
from penstock.web.board import Board
from penstock.web.why import typed, why

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.web.followed import Cursor


@pytest.fixture
def writer(tmp_path: Path) -> Writer:
    made = Writer(tmp_path / "ck")
    made.start()
    return made


class Reader:
    """Somebody who looks at the page again and again."""

    def __init__(self, folder: Path, writer: Writer) -> None:
        self.board = Board([folder], clock=lambda: writer.now_s)
        self.cursors: dict[str, Cursor] = {}

    def news(self) -> list[dict[str, Any]]:
        self.board.look()
        found = self.board.news(self.cursors)
        json.dumps(found, allow_nan=False)
        return found

    def one(self) -> dict[str, Any]:
        (found,) = self.news()
        return found


@pytest.fixture
def reader(writer: Writer) -> Reader:
    return Reader(writer.checkpoint, writer)


def test_before_the_first_batch_it_waits(reader: Reader) -> None:
    head = reader.one()["head"]
    assert head["state"] == "waiting"
    assert head["verdict"]["level"] == "none"
    assert head["target"] == "the mean wait is at most 2 s"
    assert reader.news() == []


def test_batches_add_up_and_only_what_is_new_is_sent(writer: Writer, reader: Reader) -> None:
    writer.plan((0.5,) * 8)
    writer.batch()
    first = reader.one()
    assert first["reset"]
    assert [point["n"] for point in first["points"]] == [0]
    assert first["points"][0] | {"t": 0} == {
        "n": 0,
        "t": 0,
        "d": 2.0,
        "in": 1000,
        "kept": 600,
        "must": 10,
        "shed": {REASON: 400},
        "would": {},
        "mean_s": 1.5,
        "max_s": 3.0,
        "age_s": 1.25,
        "waiting": 40,
        "plan": 0,
        "sic": {},
    }
    writer.batch(rows=500, kept=500)
    second = reader.one()
    assert not second["reset"]
    assert [point["n"] for point in second["points"]] == [1]
    head = second["head"]
    assert head["state"] == "running"
    assert (head["rows_in"], head["rows_kept"], head["rows_shed"]) == (1500, 1100, {REASON: 400})
    assert head["rows_in"] == head["rows_kept"] + sum(head["rows_shed"].values())
    assert reader.news() == []


@pytest.mark.parametrize(("wait_s", "level"), [(1.9, "good"), (2.05, "good"), (2.5, "bad")])
def test_the_verdict_holds_the_wait_against_the_target(
    writer: Writer, reader: Reader, wait_s: float, level: str
) -> None:
    writer.batch(wait_s=wait_s)
    verdict = reader.one()["head"]["verdict"]
    assert verdict["level"] == level
    assert ("Within" in verdict["text"]) == (level == "good")


def test_the_verdict_of_a_rate_and_of_the_longest_wait(tmp_path: Path) -> None:
    rate, lag = Writer(tmp_path / "rate"), Writer(tmp_path / "lag")
    rate.start(target="Throughput", target_s=None, target_rows_per_s=200.0)
    rate.batch(kept=600)
    lag.start(target="MaxLag")
    lag.batch(wait_s=1.5)
    reader = Reader(tmp_path, rate)
    found = {one["name"]: one["head"] for one in reader.news()}
    assert found["rate"]["verdict"] == {
        "level": "bad",
        "text": "300 rows a second kept; 60% of rows are kept.",
    }
    assert found["lag"]["verdict"]["level"] == "bad"
    assert "3 s of 2 s" in found["lag"]["verdict"]["text"]


def test_a_rate_counts_the_time_between_batches(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ck")
    writer.start(target="Throughput", target_s=None, target_rows_per_s=200.0)
    for _ in range(3):  # batches of two seconds, with a trigger every ten
        writer.batch(kept=600)
        writer.now_s += 8.0
    assert Reader(tmp_path, writer).one()["head"]["verdict"] == {
        "level": "good",
        "text": "60 rows a second kept; 60% of rows are kept.",
    }
    writer.now_s += 3600.0
    writer.start(target="Throughput", target_s=None, target_rows_per_s=200.0)
    writer.batch(kept=600)
    assert "300 rows a second" in Reader(tmp_path, writer).one()["head"]["verdict"]["text"]


def test_two_checkpoints_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("a", "b"):
        Writer(tmp_path / place / "ck").start()
    board = Board([tmp_path / "a" / "ck", tmp_path / "b" / "ck"])
    board.look()
    assert [one["name"] for one in board.news({})] == ["ck", str(tmp_path / "b" / "ck")]


def test_plans_are_told_with_their_reasons_and_renewals_are_counted(writer: Writer, reader: Reader) -> None:
    writer.plan((0.5, 1.0, 0.0, 1.0))
    writer.plan((0.5, 1.0, 0.0, 1.0), note="renewed")
    found = reader.one()
    assert [plan["version"] for plan in found["decisions"]] == [0]
    assert found["decisions"][0]["reasons"] == [
        {"reason": REASON, "buckets": 1, "keep": 0.0},
        {"reason": REASON, "buckets": 1, "keep": 0.5},
    ]
    assert (found["head"]["plan"], found["head"]["renewals"]) == (1, 1)
    writer.plan(None, note="no input")
    (plan,) = reader.one()["decisions"]
    assert (plan["version"], plan["reasons"], plan["note"]) == (2, [], "no input")


def test_a_mean_of_many_shares_is_called_that(writer: Writer, reader: Reader) -> None:
    writer.plan((0.01, 0.01, 0.01, 0.01, 0.6407, 1.0))
    writer.plan((0.0, 0.2, 0.4, 0.6, 1.0))
    few, many = (plan["reasons"] for plan in reader.one()["decisions"])
    assert [(one["buckets"], one["keep"]) for one in few] == [(4, 0.01), (1, 0.6407)]
    assert many == [{"reason": f"{REASON}, on average", "buckets": 4, "keep": 0.3}]


def test_costs_are_told_by_class_with_what_the_plan_keeps_of_them(writer: Writer, reader: Reader) -> None:
    keep = [1.0] * BUCKETS
    keep[2] = 0.25
    writer.plan(tuple(keep))
    writer.batch()
    cheap, dear = reader.one()["head"]["costs"]
    assert (cheap["rows"], cheap["kept"]) == (0.5, 1.0)
    assert (dear["rows"], dear["kept"]) == (0.5, 0.25)
    assert dear["work"] == pytest.approx(0.8, abs=1e-3)


def test_alarms_stay_until_they_change_and_an_end_is_told(writer: Writer, reader: Reader) -> None:
    writer.batch()
    writer.alarm("this target cannot be held")
    head = reader.one()["head"]
    assert (head["alarms"], head["errors"]) == (["this target cannot be held"], 1)
    writer.end()
    assert reader.one()["head"]["state"] == "ended"


def test_a_query_that_says_nothing_for_long_is_quiet(writer: Writer, reader: Reader) -> None:
    writer.batch()
    assert reader.one()["head"]["state"] == "running"
    writer.now_s += 61.0
    assert reader.one()["head"]["state"] == "quiet"


def test_a_guard_that_says_that_it_lives_is_not_quiet_however_long_a_batch_takes(
    writer: Writer, reader: Reader
) -> None:
    writer.batch()
    for _ in range(9):
        writer.now_s += 10.0
        writer.alive()
    assert reader.one()["head"]["state"] == "running"


def test_a_guard_that_was_killed_is_quiet_soon_however_long_batches_took(writer: Writer, reader: Reader) -> None:
    writer.alive()
    writer.batch(start_s=writer.now_s - 100.0)
    writer.now_s += 25.0
    assert reader.one()["head"]["state"] == "running"
    writer.now_s += 10.0
    assert reader.one()["head"]["state"] == "quiet"
    writer.start()  # the next one has not had to say anything yet
    writer.batch(start_s=writer.now_s - 100.0)
    writer.now_s += 61.0
    assert reader.one()["head"]["state"] == "running"


def test_a_query_that_goes_on_after_a_restart_keeps_its_history(writer: Writer, reader: Reader) -> None:
    writer.batch()
    writer.end()
    reader.news()
    writer.now_s += 30.0
    writer.start()
    writer.batches -= 1  # the batch is replayed
    writer.batch()
    writer.batch()
    found = reader.one()
    assert not found["reset"]
    assert [point["n"] for point in found["points"]] == [1]
    assert found["head"]["state"] == "running"
    assert found["head"]["batches"] == 2
    assert len(found["head"]["starts"]) == 2


def test_a_batch_that_no_guard_reported_is_told(writer: Writer, reader: Reader) -> None:
    writer.batch()
    writer.batches += 1  # one without rows: only the guard knows, and it says nothing
    writer.batch()
    assert reader.one()["head"]["alarms"] == []
    writer.start()  # killed, and started again
    writer.batches += 1
    writer.batch()
    said = "Batch 3 has no report, so totals omit it: it had no rows, or it ended while no guard was watching."
    assert reader.one()["head"]["alarms"] == [said]
    writer.start()
    writer.missing(5, 6, "Spark had discarded its progress before the guard read it")
    writer.batches += 2
    writer.batch()
    (told,) = reader.one()["head"]["alarms"]
    assert told.startswith("3 batches have no report, so totals omit them. The last is batch 6: Spark had")


def test_a_log_that_is_gone_is_told_and_what_was_known_stays(writer: Writer, reader: Reader) -> None:
    writer.batch()
    reader.news()
    shutil.rmtree(writer.checkpoint)
    found = reader.one()
    assert found["head"]["state"] == "gone"
    assert str(writer.folder) in found["head"]["trouble"]
    assert found["head"]["rows_in"] == 1000
    assert not writer.checkpoint.exists(), "to look must not make it again"


@pytest.mark.parametrize("query", ["5c1f", "another"])
def test_a_query_that_begins_anew_in_the_same_folder_starts_from_nothing(
    writer: Writer, reader: Reader, query: str
) -> None:
    for _ in range(3):
        writer.plan((0.5,))
        writer.batch()
    reader.news()
    # If it were deleted, the system might give the numbers of its files to the new ones.
    writer.checkpoint.rename(writer.checkpoint.with_name("gone"))
    reader.news()
    again = Writer(writer.checkpoint, query=query, now_s=writer.now_s)
    again.start()
    again.plan((0.25,))
    again.batch(rows=20, kept=14)
    found = reader.one()
    assert found["reset"]
    assert [point["in"] for point in found["points"]] == [20]
    assert [plan["version"] for plan in found["decisions"]] == [0]
    assert found["head"]["rows_in"] == 20
    assert found["head"]["trouble"] == ""


def test_lines_that_cannot_be_read_are_counted_and_left_out(writer: Writer, reader: Reader) -> None:
    writer.batch()
    with journal_path(writer.folder, writer.query).open("a") as file:
        file.write("report {torn\n")
    writer.batch()
    found = reader.one()
    assert len(found["points"]) == 2
    assert found["head"]["unreadable"] == 1


def test_a_damaged_plan_is_left_out(writer: Writer, reader: Reader) -> None:
    writer.plan((0.5,))
    (writer.folder / "plans" / f"{1:020d}.plan").write_text("nonsense")
    writer.plan((0.25,))
    assert [plan["version"] for plan in reader.one()["decisions"]] == [0, 2]


def test_source_information_content_is_told_if_reports_have_it(writer: Writer, reader: Reader) -> None:
    writer.batch(sic={"a": 1.0, "b": 0.0})
    assert reader.one()["points"][-1]["sic"] == {"a": 1.0, "b": 0.0}


def test_queries_that_appear_later_below_a_folder_are_found(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "jobs" / "first" / "ck")
    reader = Reader(tmp_path, writer)
    assert reader.news() == []
    writer.start()
    writer.now_s += 10.0
    assert reader.one()["name"] == "jobs/first/ck"


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"CHECKPOINT = .* start the query first"):
        Board([tmp_path]).refuse_nothing(wait=False)


def test_a_folder_to_come_can_be_waited_for_but_not_one_that_cannot(tmp_path: Path) -> None:
    Board([tmp_path, tmp_path / "ck"]).refuse_nothing(wait=True)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "nowhere" / "ck"):
        with pytest.raises(PenstockError, match=r"CHECKPOINT = .* nothing to wait for here"):
            Board([folder]).refuse_nothing(wait=True)


def test_a_log_that_was_waited_for_is_shown_when_it_comes(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "ck")
    with cli_dashboard.board([writer.checkpoint], sample=False, wait=True) as shown:
        assert shown.without_log == [writer.checkpoint]
        assert cli_dashboard.state(shown) == []
        writer.start()
        assert shown.without_log == []
    with cli_dashboard.board([writer.checkpoint], sample=False) as shown:
        assert [one["name"] for one in cli_dashboard.state(shown)] == ["ck"]


class TestWhy:
    @pytest.fixture
    def board(self, writer: Writer) -> Board:
        keep = [1.0] * BUCKETS
        keep[bucket(xxhash64(42), BUCKETS)] = 0.25
        writer.plan(None)
        writer.batch()
        writer.plan(tuple(keep))
        writer.batch()
        board = Board([writer.checkpoint], clock=lambda: writer.now_s)
        board.look()
        return board

    def query(self, board: Board) -> Any:
        return board.guarded(board.news({})[0]["id"])

    def test_a_key_that_is_shed_is_told_share_and_reason(self, board: Board) -> None:
        answer = why(self.query(board), ["42"])
        assert (answer["keep"], answer["reason"], answer["plan"]) == (0.25, REASON, 1)
        assert answer["text"][0].startswith("25% of the rows of this key are kept")
        assert [(one["version"], one["keep"]) for one in answer["earlier"]] == [(1, 0.25), (0, 1.0)]

    def test_another_key_is_kept(self, board: Board) -> None:
        assert why(self.query(board), ["43"])["text"][0].startswith("Every row of this key is kept")

    def test_an_earlier_batch_was_judged_by_an_earlier_plan(self, board: Board) -> None:
        assert why(self.query(board), ["42"], batch=0)["keep"] == 1.0
        with pytest.raises(PenstockError, match="batch = 9"):
            why(self.query(board), ["42"], batch=9)

    @pytest.mark.parametrize(("key", "told"), [(["x"], "bigint"), ([], "user"), (["1", "2"], "user")])
    def test_what_is_no_key_is_refused(self, board: Board, key: list[str], told: str) -> None:
        with pytest.raises(PenstockError, match=told):
            why(self.query(board), key)

    def test_empty_text_and_null_are_keys_too(self, tmp_path: Path) -> None:
        writer = Writer(tmp_path / "ck")
        writer.start(key_types=("string",))
        writer.plan((1.0,))
        board = Board([tmp_path])
        board.look()
        found = [why(self.query(board), [key])["bucket"] for key in ("", None, "null")]
        assert found == [bucket(xxhash64(key), BUCKETS) for key in ("", None, "null")]
        assert len(set(found)) == 3

    def test_a_row_that_is_named_gets_the_gates_own_verdict(self, tmp_path: Path) -> None:
        writer = Writer(tmp_path / "rows")
        writer.start(row=("offset",), row_types=("bigint",))
        plan = writer.plan((0.3,) * 4)
        writer.batch()
        board = Board([tmp_path])
        board.look()
        rows = np.arange(50)
        table = plan.gate("source")
        assert table is not None
        keys = np.full(50, xxhash64(5), np.int64)
        kept = judge(table, key_hashes=keys, coins=coins(plan.salt, rows)).kept.tolist()
        assert [why(self.query(board), ["5"], [str(row)])["row"]["kept"] for row in rows] == kept
        assert 0 < sum(kept) < 50

    @pytest.mark.parametrize(
        ("mode", "must", "told"),
        [
            ("enforce", "", "This row is dropped: its coin"),
            ("enforce", "vip", "This row is dropped, unless it must be kept: its coin"),
            ("dry_run", "vip", "This row would be dropped, unless it must be kept: its coin"),
        ],
    )
    def test_a_row_is_not_called_dropped_that_may_be_one_of_those_that_must_be_kept(
        self, tmp_path: Path, mode: str, must: str, told: str
    ) -> None:
        writer = Writer(tmp_path / "ck")
        writer.start(row=("offset",), row_types=("bigint",), keep=must, mode=mode)
        writer.plan((0.0,))
        writer.batch()
        board = Board([tmp_path])
        board.look()
        said = why(self.query(board), ["5"], ["1"])["text"]
        assert said[1].startswith(told)
        assert ("A row with vip is always kept, regardless of its key." in said) == bool(must)

    def backlog(self, folder: Path, salt: int | None = None) -> tuple[Any, Binding]:
        """A query whose first batch, without a plan, met a backlog."""
        writer = Writer(folder / "ck")
        writer.start(row=("offset",), row_types=("bigint",), salt=salt)
        (writer.folder / "guard.json").write_text(Claim("guard", seed=7).to_json())
        writer.batch(rows_shed={TOO_OLD: 400}, plan_version=None)
        bound = Binding(0, writer.query, 1.7e9, None, rule(2.0))
        assert BindingLog(writer.folder / "bindings" / writer.query).add(0, bound)
        board = Board([folder])
        board.look()
        return self.query(board), bound

    @pytest.mark.parametrize("salt", [None, gate_salt(7, "guard", weighted=True)])
    def test_a_row_of_a_backlog_was_thinned_by_its_age(self, tmp_path: Path, salt: int | None) -> None:
        query, bound = self.backlog(tmp_path, salt)
        rows, tossed = range(200), coins(gate_salt(7, "guard") if salt is None else salt, np.arange(200))
        for age_s in (10.0, 31.0, 3600.0):
            limit = age_thresholds(bound.backlog, np.array([bound.bound_s - age_s]), bound.bound_s)[0]
            arrived = str(bound.bound_s - age_s)
            answers = [why(query, ["5"], [str(row)], 0, arrived) for row in rows]
            assert [one["row"]["kept"] for one in answers] == (tossed <= limit).tolist()
        assert answers[0]["reason"] == TOO_OLD
        assert answers[0]["text"][0].startswith("<1% of the rows of its age, 3600 s, are kept")
        # Without a time of arrival, the age up to which it is kept.
        for row in rows:
            oldest_s = why(query, ["5"], [str(row)], 0)["row"]["oldest_s"]
            for age_s, kept in ((0.99 * oldest_s, True), (1.01 * oldest_s, False)):
                arrived = str(bound.bound_s - age_s)
                assert why(query, ["5"], [str(row)], 0, arrived)["row"]["kept"] is kept

    def test_a_row_of_a_batch_that_was_too_large_was_thinned_for_it(self, tmp_path: Path) -> None:
        writer = Writer(tmp_path / "ck")
        writer.start(row=("offset",), row_types=("bigint",), salt=7)
        writer.plan((0.5,))
        writer.batch(rows_shed={TOO_MANY: 400})
        bound = Binding(0, writer.query, 1.7e9, 0, share=0.5)
        assert BindingLog(writer.folder / "bindings" / writer.query).add(0, bound)
        board = Board([tmp_path])
        board.look()
        answers = [why(self.query(board), ["5"], [str(row)], 0) for row in range(100)]
        assert [one["row"]["kept"] for one in answers] == (coins(7, np.arange(100)) < 2**61).tolist()
        assert (answers[0]["keep"], answers[0]["reason"]) == (0.25, TOO_MANY)

    def test_who_asks_without_a_batch_is_told_of_the_backlog(self, tmp_path: Path) -> None:
        query, _ = self.backlog(tmp_path)
        assert why(query, ["5"])["text"][-1].startswith("Rows of batch 0 were shed for their age")
        assert "of age a, 2 s / a of them are kept" in " ".join(why(query, ["5"], (), 0)["text"])
        with pytest.raises(PenstockError, match="arrived = 'noon' is not usable: give a time such as"):
            why(query, ["5"], (), 0, "noon")

    def test_each_batch_is_judged_by_the_salt_of_its_own_watch(self, tmp_path: Path) -> None:
        writer = Writer(tmp_path / "ck")
        salts = [gate_salt(7, "guard", weighted=weighted) for weighted in (False, True)]
        for salt in salts:
            writer.start(row=("offset",), row_types=("bigint",), salt=salt)
            writer.plan((0.5,))
            writer.batch()
        board = Board([tmp_path])
        board.look()
        for batch, salt in (*enumerate(salts), (None, salts[-1])):
            told = [why(self.query(board), ["5"], [str(row)], batch)["row"]["kept"] for row in range(50)]
            assert told == (coins(salt, np.arange(50)) < 2**62).tolist()

    def test_a_batch_whose_plan_is_gone_is_not_said_to_keep_every_row(self, writer: Writer, board: Board) -> None:
        for path in (writer.folder / "plans").iterdir():
            path.unlink()
        with pytest.raises(PenstockError, match="plan 1, which judged batch 1, is missing"):
            why(self.query(board), ["42"], batch=1)

    def test_a_key_tells_nothing_if_the_source_decides(self, tmp_path: Path) -> None:
        query, _ = self.backlog(tmp_path)
        (query.folder / "guard.json").write_text(Claim("guard", sources=("a", "b")).to_json())
        with pytest.raises(PenstockError, match="keep a share of each source"):
            why(query, ["5"])

    def test_a_key_tells_nothing_if_another_column_decides(self, tmp_path: Path) -> None:
        query, _ = self.backlog(tmp_path)
        for claim in (Claim("guard", cost_column="cost_s"), Claim("guard", value=("cost_s", ()))):
            (query.folder / "guard.json").write_text(claim.to_json())
            with pytest.raises(PenstockError, match="also uses column cost_s"):
                why(query, ["5"])


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "string", "7"),
        ("7", "bigint", 7),
        ("7", "int", np.int32(7)),
        ("true", "boolean", True),
        ("1970-01-01T00:00:01", "timestamp", 1_000_000),
        ("ü", "varchar(3)", "ü"),
        ("-1.5", "decimal(18,2)", -150),
        ("1.5", "decimal(19,2)", b"\x00\x96"),
        ("-1.28", "decimal(19,2)", b"\x80"),
    ],
)
def test_values_are_read_as_spark_would_hash_them(text: str, kind: str, value: object) -> None:
    found = typed(text, kind)
    assert found == value
    assert type(found) is type(value)


def test_a_type_that_cannot_be_looked_up_says_so() -> None:
    with pytest.raises(PenstockError, match="array<int>"):
        typed("1.5", "array<int>")


@pytest.mark.parametrize("text", ["1.55", "100", "x", "nan", "inf", "1e999999"])
def test_what_is_no_decimal_of_the_type_is_refused(text: str) -> None:
    with pytest.raises(PenstockError, match=r"one of type decimal\(3,1\)"):
        typed(text, "decimal(3,1)")
