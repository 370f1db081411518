from penstock.core.control.gate import TOO_OLD
from penstock.core.control.shed_alarms import ShedAlarms
from penstock.messages.report import Report


def batch(rows: int, kept: int, reason: str = "over capacity", *, dry: bool = False) -> Report:
    shed = {reason: rows - kept} if kept < rows else {}
    counts = {"rows_kept": rows, "rows_would_shed": shed} if dry else {"rows_kept": kept, "rows_shed": shed}
    return Report(sequence=4, start_s=0.0, end_s=1.0, rows_in=rows, **counts)  # type: ignore[arg-type]  # by name


def test_who_keeps_next_to_nothing_for_several_batches_is_told() -> None:
    for dry in (False, True):
        alarms = ShedAlarms()
        found = [alarms.after(batch(100, 3, dry=dry)) for _ in range(4)]
        assert found[:2] == [[], []]
        assert found[2][0].startswith("almost no rows are kept: 9 of the last 300 rows")
        assert found[3][0].startswith("almost no rows are kept: 12 of the last 400 rows")
        for _ in range(5):
            told = alarms.after(batch(100, 100))
        assert told == [], "it is over"


def test_who_sheds_much_but_not_all_of_it_or_has_few_rows_is_left_alone() -> None:
    for rows, kept in ((100, 6), (10, 0)):
        alarms = ShedAlarms()
        assert not any(alarms.after(batch(rows, kept)) for _ in range(5))


def test_who_thins_a_backlog_is_told_how_much() -> None:
    (told,) = ShedAlarms().after(batch(31_433, 2_414, TOO_OLD))
    assert told.startswith("29019 of 31433 rows of batch 4 were too old when the query started and were shed, as")
    assert "would have been shed" in ShedAlarms().after(batch(100, 50, TOO_OLD, dry=True))[0]


def test_a_job_that_ends_after_its_first_batch_is_told_that_it_kept_next_to_nothing() -> None:
    (told,) = ShedAlarms().after(batch(2_000, 20))
    assert told.startswith("almost no rows are kept: 20 of the last 2000 rows")
    assert ShedAlarms().after(batch(2_000, 200)) == []
    assert ShedAlarms().after(batch(500, 5)) == []
    (old,) = ShedAlarms().after(batch(2_000, 20, TOO_OLD))
    assert "too old" in old
