"""`penstock bench NAME`: the commands."""

import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from penstock import hardware
from penstock.cli import options
from penstock.cli.bench_tables import Result, show, show_answers
from penstock.cli.printing import SCREEN, check_outputs, jobs_or_cores, progress_bar, write_json
from penstock.errors import PenstockError
from penstock.extras import require_spark

#: Broken promises that are shown.
_MOST_TOLD = 10

group = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True, add_completion=False)


def _bench(
    name: str,
    steps: int,
    run: Callable[[Callable[..., None]], Result],
    json_file: Path | None,
    shown: Callable[[Console, Result], None] | None = None,
) -> Result:
    """Run a benchmark with a progress bar, print its result, and write it as JSON."""
    json_file = check_outputs(None, json_file)
    with progress_bar() as progress:
        result = run(partial(progress.advance, progress.add_task(name, total=steps)))
    result["machine"] = hardware.describe()
    (shown or partial(show, name=name))(SCREEN, result)
    SCREEN.print(f"Measured on {hardware.in_one_line(result['machine'])}.")
    write_json(json_file, result)
    return result


def _in_folder(bench: Callable[..., Result], *given: object, where: str | None = None) -> Callable[..., Result]:
    """A run of a benchmark on Spark that takes a folder, in one that is deleted afterwards."""
    require_spark()

    def run(done: Callable[[], None]) -> Result:
        with tempfile.TemporaryDirectory(prefix="penstock-", dir=where, ignore_cleanup_errors=True) as folder:
            return bench(Path(folder), *given, done)

    return run


@group.command("sim")
def bench_simulator(*, runs: options.Runs = 200, jobs: options.Jobs = 0, json_file: options.Json = None) -> None:
    """Verdicts per second and core of the simulator, and the time of the paper's 5,000 runs."""
    from penstock.bench.simulator import bench_sim

    _bench("sim", 2 * runs, partial(bench_sim, runs, jobs_or_cores(jobs)), json_file)


@group.command("answers")
def bench_answers(*, runs: options.Runs = 20_000, seed: options.Seed = 0, json_file: options.Json = None) -> None:
    """How often 95 percent intervals contain the true value, for groups drawn and shed at random."""
    from penstock.sim.coverage import CASES, bench_coverage

    _bench("answers", len(CASES), partial(bench_coverage, runs, seed), json_file, show_answers)


@group.command("grains")
def bench_shedding_grains(*, seed: options.Seed = 0, json_file: options.Json = None) -> None:
    """The gate, the row gate, and both together on a micro-batch query, on virtual time."""
    from penstock.sim.grains import GRAIN_RUNS, bench_grains

    _bench("grains", GRAIN_RUNS, partial(bench_grains, seed), json_file)


@group.command("roadmap")
def bench_roadmap(
    *, boxes: options.Boxes = 1000, repeats: options.Repeats = 9, seed: options.Seed = 0, json_file: options.Json = None
) -> None:
    """Time to build and read a road map of a random network, against a linear program at every change."""
    from penstock.bench import roadmap

    _bench("roadmap", repeats, partial(roadmap.bench_roadmap, boxes, repeats, seed), json_file)


@group.command("density")
def bench_density(
    *,
    classes: options.ClassCount = 100_000,
    repeats: options.Repeats = 9,
    seed: options.Seed = 0,
    json_file: options.Json = None,
) -> None:
    """Time of Balanced to allot work to many classes of rows, for alpha 0, 1, 2 and infinity."""
    from penstock.bench import density

    _bench("density", repeats, partial(density.bench_density, classes, repeats, seed), json_file)


@group.command("balance")
def bench_balance(
    *,
    fragments: options.Fragments = 2000,
    repeats: options.Repeats = 101,
    seed: options.Seed = 0,
    json_file: options.Json = None,
) -> None:
    """Time of an overloaded node to decide which tuples to keep, fairly and at random."""
    from penstock.bench import balance

    _bench("balance", repeats, partial(balance.bench_balance, fragments, repeats, seed), json_file)


@group.command("gate")
def bench_gate(
    *, rows: options.GateRows = 60_000_000, repeats: options.Repeats = 7, json_file: options.Json = None
) -> None:
    """Rows a second of the gate on Spark, against DataFrame.sample on the same rows."""
    from penstock.bench import gate

    _bench("gate", repeats + 3, _in_folder(gate.bench_gate, rows, repeats), json_file)


@group.command("idle")
def bench_idle(*, repeats: options.Repeats = 5, json_file: options.Json = None) -> None:
    """Cost of a guard on Spark without overload: a guarded pipeline against the bare one."""
    from penstock.bench import idle

    _bench("idle", repeats + 1, _in_folder(idle.bench_idle, repeats), json_file)


@group.command("latency")
def bench_latency(
    *,
    learn: options.Learn = 20.0,
    measure: options.Measure = 60.0,
    prefer: options.PreferRows = "cheap",
    repeats: options.Repeats = 1,
    json_file: options.Json = None,
) -> None:
    """How each policy holds a 2 s target on Spark at 25, 50 and 100 percent overload; 22 minutes a repeat."""
    from penstock.bench import latency

    effort = latency.Effort(repeats, learn_s=learn, measure_s=measure, prefer="cheap" if prefer == "cheap" else "any")
    _bench("latency", 15 * repeats, _in_folder(latency.bench_latency, effort), json_file)


@group.command("grouping")
def bench_grouping(
    *,
    figure_12: Annotated[
        bool, typer.Option("--figure-12", help="OSG's figure 12 in its place: completion times as speeds change.")
    ] = False,
    repeats: options.GroupingRepeats = None,
    json_file: options.Json = None,
) -> None:
    """Gain of grouping by cost on Spark over repartition(k), and against known costs; 40 minutes."""
    if figure_12 and repeats is not None:
        raise PenstockError.setting("--repeats", repeats, "it without --figure-12, which is one run")
    from penstock.bench import grouping

    if figure_12:
        _bench("figure 12", 3, _in_folder(grouping.bench_series, grouping.Series()), json_file)
        return
    effort = grouping.Effort() if repeats is None else grouping.Effort(repeats)
    _bench("grouping", effort.steps, _in_folder(grouping.bench_grouping, effort), json_file)


@group.command("balanced")
def bench_balanced(
    *,
    repeats: options.Repeats = 3,
    learn: options.Learn = 45.0,
    measure: options.Measure = 30.0,
    json_file: options.Json = None,
) -> None:
    """Utility of policies for three queries of different cost and worth, at twice the load; 8 minutes a repeat."""
    from penstock.bench import balanced

    effort = balanced.Effort(repeats, settle_s=learn, measure_s=measure)
    run = _in_folder(balanced.bench_balanced, effort)
    _bench("balanced", 1 + repeats * len(balanced.WAYS), run, json_file)


@group.command("chaos")
def bench_chaos(
    *,
    schedules: options.Schedules = 10_000,
    seed: options.Seed = 0,
    jobs: options.Jobs = 0,
    json_file: options.Json = None,
) -> None:
    """Whether loop, store and planner keep their promises under seeded schedules of faults; a minute for 10,000."""
    from penstock.sim import chaos

    def run(done: Callable[..., None]) -> Result:
        found = chaos.run_all(schedules, seed, jobs_or_cores(jobs), done)
        kept = schedules - len(found.broken)
        claim = {"claim": "schedules in which every promise is kept", "goal": schedules, "measured": kept}
        return {
            "schedules": schedules,
            "seed": seed,
            "batches": found.counts["batch run"],
            "counts": dict(sorted(found.counts.items())),
            "broken": {str(one): promise for one, promise in found.broken.items()},
            "claims": [claim | {"holds": kept == schedules}],
        }

    broken = _bench("chaos", schedules, run, json_file)["broken"]
    for one, promise in list(broken.items())[:_MOST_TOLD]:
        SCREEN.print(f"Broken: {promise}. Repeat it with: {chaos.command(one)}", soft_wrap=True)
    if broken:
        raise typer.Exit(1)


@group.command("growth")
def bench_growth(*, batches: options.GrowthBatches = 100_000, json_file: options.Json = None) -> None:
    """Growth of files, memory and batch time over a day of batches; 30 minutes."""
    from penstock.bench import growth

    ages = batches // 100, batches // 10, batches
    run = _in_folder(growth.bench_growth, ages, growth.TIMED, where=growth.ram_disk())
    _bench("growth", 4, run, json_file)


@group.command("fair")
def bench_fair(
    *, settle: options.Learn = 30.0, measure: options.Measure = 40.0, json_file: options.Json = None
) -> None:
    """Fairness of four overloaded queries: Fair, random shedding, a guard each, and Spark's pools."""
    from penstock.bench import fair

    effort = fair.Effort(settle_s=settle, measure_s=measure)
    _bench("fair", 1 + len(fair.WAYS), _in_folder(fair.bench_fair, effort), json_file)


@group.command("federation")
def bench_federation(
    *,
    settle: options.Learn = 40.0,
    measure: options.Measure = 60.0,
    kafka: Annotated[
        str | None, options.option("Connect the sites by a Kafka broker instead of a folder.", "HOST:PORT")
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="Kill a site, cut the transport, send bad messages, shift a clock.")
    ] = False,
    json_file: options.Json = None,
) -> None:
    """Fairness of the SIC of queries shared by three sites, against random shedding; 5 minutes."""
    from penstock.bench import federation
    from penstock.federation.kafka_bus import KafkaBus

    if faults and kafka is not None:
        raise PenstockError.setting(
            "--kafka", kafka, "it without --faults", "examples/federation/run.py stops a broker"
        )

    def run(folder: Path, done: Callable[[], None]) -> dict[str, Any]:
        if kafka is not None:
            KafkaBus(kafka, "penstock", {}).reach()
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # or the sites would keep running
        wire = federation.FolderWire(folder / "wire") if kafka is None else federation.KafkaWire(kafka)
        bench = federation.bench_faults if faults else federation.bench_federation
        return bench(folder, federation.Effort(settle, measure), wire, done)

    _bench("federation", 2, _in_folder(run), json_file)


@group.command("store")
def bench_store(*, batches: options.StoreBatches = 500, json_file: options.Json = None) -> None:
    """Requests of a batch whose checkpoint is in a bucket, and the time from a plan to the gate."""
    require_spark()
    from penstock.bench import store

    _bench("store", 2, partial(store.bench_store, batches), json_file)
