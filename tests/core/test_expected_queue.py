"""The queue a scheduler expects, against working it out row by row."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.grouping.ready_time import ExpectedQueue, SentRow

TIMES = st.integers(0, 8).map(float)
#: A row sent after a gap, with what it is expected to take (None: nothing is known yet), and then perhaps an event:
#: a report of a row so many places from the oldest, with its sojourn; or the oldest forgotten.
STEPS = st.lists(
    st.tuples(TIMES, st.none() | TIMES, st.none() | st.just("forget") | st.tuples(st.integers(0, 3), TIMES)),
    max_size=40,
)


def free_s(done_s: float, rows: list[SentRow]) -> float:
    for row in rows:
        done_s = max(done_s, row.sent_s) + row.takes_s
    return done_s


@given(STEPS)
def test_it_is_what_row_by_row_gives(
    steps: list[tuple[float, float | None, str | tuple[int, float] | None]],
) -> None:
    queue, rows, done_s, now_s = ExpectedQueue(), list[SentRow](), 0.0, 0.0
    for number, (gap_s, expected_s, event) in enumerate(steps, start=1):
        now_s += gap_s
        row = SentRow(number, 0, now_s, expected_s, expected_s or 0.0)
        queue.send(row)
        rows.append(row)
        if event == "forget":
            done_s = free_s(done_s, rows[:1])
            queue.forget_oldest()
            rows = rows[1:]
        elif isinstance(event, tuple) and event[0] < len(rows):
            place, sojourn_s = event
            done_s = rows[place].sent_s + sojourn_s
            assert queue.leave(rows[place].number, sojourn_s) is rows[place]
            assert queue.leave(rows[place].number, sojourn_s) is None  # told twice
            rows = rows[place + 1 :]
            if number % 5 == 0:
                queue.recount(2.0)
        assert list(queue.rows) == rows
        assert (queue.done_s, queue.free_s) == (done_s, free_s(done_s, rows))
        assert queue.behind_oldest_s == sum(row.takes_s for row in rows[1:])
        assert all(row.takes_s == row.expected_s for row in rows if row.expected_s is not None)
