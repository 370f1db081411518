"""The `penstock` command: every command accepts `--json FILE`; a usage error is one line and exit status 2."""

import shlex
import sys
import tempfile
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import penstock
from penstock import hardware
from penstock.cli import options
from penstock.cli.printing import SCREEN, check_outputs, command_line, json_bytes, plain, progress_bar, write_json
from penstock.errors import PenstockError
from penstock.extras import missing, require_spark
from penstock.output import writable_folder, write_files
from penstock.web import PORT

#: What Typer returns after Ctrl-C, and what a shell expects.
_INTERRUPTED = 130


class _Commands(TyperGroup):
    """Loads a group of commands when one of them is called: the simulator takes a second to load."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - Typer's own
        name, command, rest = super().resolve_command(ctx, args)
        if name in _GROUPS:
            command = typer.main.get_command(import_module(f"penstock.cli.{name}").group)
        return name, command, rest


app = typer.Typer(
    name="penstock",
    cls=_Commands,
    help="Keeps an overloaded stream within its latency target and says exactly what was dropped.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
#: Groups of commands, each a module here, and what they do.
_GROUPS = {"reproduce": "Rerun a paper's experiments on virtual time.", "bench": "Measure speed on this machine."}
for _name, _help in _GROUPS.items():
    app.add_typer(typer.Typer(help=_help), name=_name)


@app.callback(invoke_without_command=True)
def _penstock(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        SCREEN.print(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.command()
def demo(
    *,
    seconds: options.Seconds = 40.0,
    target: options.Target = 2.0,
    seed: options.Seed = 0,
    out: options.DemoOut = Path("out/demo"),
    dashboard: options.Dashboard = False,
    json_file: options.Json = None,
) -> None:
    """Run an overloaded Spark query on this machine, first unguarded, then guarded; two minutes on an idle machine."""
    require_spark()
    json_file = check_outputs(out, json_file)
    import penstock.cli.dashboard as cli_dashboard
    from penstock.demo import page, report
    from penstock.demo.both_runs import MODES, run_demo
    from penstock.demo.kept_log import KeptLog

    log = KeptLog(out)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as name,
        cli_dashboard.beside(SCREEN, *(Path(name) / run for run in MODES), wanted=dashboard),
    ):
        result = run_demo(SCREEN, Path(name), seconds=seconds, target_s=target, seed=seed)
        log_files = log.taken_from(Path(name) / "guarded")
    result["machine"] = hardware.describe()
    machine = hardware.in_one_line(result["machine"])
    report.show(SCREEN, result)
    SCREEN.print(f"Measured on {machine}.")
    made_by = command_line("penstock demo", {"seconds": seconds, "target": f"{target:g} s", "seed": seed})
    contents = {out / "demo.html": page.page(result, machine, made_by), out / "demo.json": json_bytes(result)}
    contents[out / "demo.png"] = next(iter(page.plots(result).values()))
    log.clear()
    write_files(log_files)
    write_json(json_file, result, contents)
    plain(SCREEN, f"To inspect the guarded run: {log.command}")


@app.command()
def roadmap(
    file: options.NetworkPath,
    *,
    kind: options.Kind = None,
    shed: options.Shed = None,
    placement: options.Placement = None,
    solver: options.Solver = None,
    step: options.Step = None,
    json_file: options.Json = None,
) -> None:
    """Show the load of a query network, its road map of drops, and the entry for a given excess."""
    import penstock.cli.roadmap as cli_roadmap

    json_file = check_outputs(None, json_file)
    found = cli_roadmap.answer(file, kind=kind, shed=shed, placement=placement, solver=solver, step=step)
    cli_roadmap.show(SCREEN, found)
    write_json(json_file, cli_roadmap.to_json(found))


@app.command()
def whatif(  # noqa: PLR0913 - one argument an option
    progress: options.LogPath,
    *,
    target: options.LogTarget,
    query: options.LogQuery = None,
    spread: options.Spread = 1.0,
    trigger: options.Trigger = None,
    guard_overhead: options.GuardOverhead = None,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Guards keep shed rows in a quarantine.")] = False,
    seed: options.Seed = 0,
    out: Annotated[Path | None, options.option("Write whatif.png and whatif.json to this folder.")] = None,
    json_file: options.Json = None,
) -> None:
    """Replay a recorded progress log of Spark under each policy: rows shed and latency."""
    import penstock.cli.whatif as cli_whatif

    json_file = check_outputs(out, json_file)
    settings = cli_whatif.Settings(target, query, spread, trigger, seed, guard_overhead, quarantine)
    with progress_bar() as bar:
        found = cli_whatif.answer(progress, settings, partial(bar.advance, bar.add_task("replay", total=7)))
    cli_whatif.show(SCREEN, found)
    write_json(json_file, cli_whatif.to_json(found), None if out is None else cli_whatif.files(out, found))


@app.command("run")
def run_network(  # noqa: PLR0913 - one argument an option
    file: options.NetworkPath,
    *,
    seconds: options.RunSeconds = None,
    batches: options.Batches = None,
    once: Annotated[bool, typer.Option("--once", help="Process the available rows, then end.")] = False,
    kind: options.RunKind = None,
    cores: options.Cores = 2,
    shed: Annotated[bool, typer.Option(help="Drop rows when overloaded.")] = True,
    explain: Annotated[bool, typer.Option("--explain", help="Print Spark's plan of each output.")] = False,
    folder: options.Folder = None,
    dashboard: options.Dashboard = False,
    out: options.RunOut = None,
    json_file: options.Json = None,
) -> None:
    """Run a query network on Spark: shared boxes run once per batch, drops cost the least utility; Ctrl-C ends it."""
    require_spark()
    import penstock.cli.dashboard as cli_dashboard
    import penstock.cli.run as cli_run

    json_file = check_outputs(out, json_file)
    if folder is not None:
        writable_folder("--folder", folder)
        if out is not None and out.absolute().resolve() == folder.absolute().resolve():
            raise PenstockError.setting("--out", str(out), "another folder than --folder", "each has a network.json")
    settings = cli_run.Settings(seconds, batches, once, kind, cores, shed, explain, folder)
    network, made = cli_run.run(file, settings, SCREEN, partial(cli_dashboard.beside, SCREEN, wanted=dashboard))
    result = cli_run.facts(network, made) | {"machine": hardware.describe()}
    machine = hardware.in_one_line(result["machine"])
    cli_run.show(SCREEN, result)
    SCREEN.print(f"Measured on {machine}.")
    contents: dict[Path, bytes] = {}
    if out is not None:
        from penstock.views.network.page import page

        given = {"seconds": seconds, "batches": batches, "kind": kind, "cores": cores}
        made_by = command_line(f"penstock run {shlex.quote(str(file))}", given)
        contents[out / "network.html"] = page(network.name, network.network, made.snapshots, machine, made_by)
        contents[out / "network.json"] = json_bytes(result)
    write_json(json_file, result, contents)


@app.command("dashboard")
def show_dashboard(
    checkpoints: options.Checkpoints = None,
    *,
    sample: Annotated[bool, typer.Option("--sample", help="Show a simulated query instead of a log.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show the page before a query has written its first plan.")
    ] = False,
    host: options.Host = "127.0.0.1",
    port: options.Port = PORT,
    token: options.Token = None,
    public_url: options.PublicUrl = None,
    json_file: options.Json = None,
) -> None:
    """Serve a live page over the logs of guarded queries and networks; with --json, write its data once."""
    import penstock.cli.dashboard as cli_dashboard

    json_file = check_outputs(None, json_file)
    if wait and json_file is not None:
        raise PenstockError("--json writes what is there now: give it without --wait")
    with cli_dashboard.board(checkpoints or [], sample=sample, wait=wait) as shown:
        if json_file is None:
            cli_dashboard.serve(SCREEN, shown, host=host, port=port, token=token, public_url=public_url)
            return
        write_json(json_file, {"logs": cli_dashboard.state(shown)})


@app.command("replay")
def replay_quarantine(
    folder: Annotated[Path, typer.Argument(help="The quarantine of a guard.", metavar="DIR")],
    *,
    into: Annotated[str, options.option("A folder of its own, table:NAME or kafka:TOPIC@HOST:PORT.", "PLACE")],
    pipeline: options.Pipeline = None,
    when_calm: options.WhenCalm = None,
    cores: options.Cores = 2,
    json_file: options.Json = None,
) -> None:
    """Replay the rows that a guard has shed through the pipeline, each once."""
    require_spark()
    import penstock.cli.replay as cli_replay

    json_file = check_outputs(None, json_file)
    result = cli_replay.run(folder, into, pipeline, when_calm, cores, SCREEN)
    write_json(json_file, result)


@app.command("site")
def run_site(  # noqa: PLR0913 - one argument an option
    file: options.SitePath = None,
    *,
    seconds: options.RunSeconds = None,
    batches: options.Batches = None,
    cores: options.Cores = 2,
    folder: options.SiteFolder = None,
    conf: options.SparkConf = None,
    account: options.SiteAccounts = None,
    dashboard: options.Dashboard = False,
    json_file: options.Json = None,
) -> None:
    """Run one site of a federation on Spark, until Ctrl-C; or, with --account, add up the accounts of several sites."""
    import penstock.cli.dashboard as cli_dashboard
    import penstock.cli.site as cli_site

    json_file = check_outputs(None, json_file)
    if (file is None) == (account is None):
        raise PenstockError("give either a site file, or --account with the folder of each site")
    if dashboard and account is not None:
        raise PenstockError("--dashboard shows a site that runs: give a site file, or run penstock dashboard DIR")
    if account is not None:
        from penstock.federation.account import add_up

        added = add_up(account)
        cli_site.show_account(SCREEN, added)
        result = added.to_json()
    elif file is not None:
        require_spark()
        if folder is not None:
            writable_folder("--folder", folder)
        settings = cli_site.Settings(seconds, batches, cores, folder, tuple(conf or ()))
        result = cli_site.run(file, settings, SCREEN, partial(cli_dashboard.beside, SCREEN, wanted=dashboard))
        cli_site.show(SCREEN, result)
    write_json(json_file, result)
    if result.get("balances") is False:
        sys.exit(1)


def main() -> None:
    """Run the command; a usage error ends in one line on standard error and exit status 2."""
    try:
        code: int | None = app(standalone_mode=False)
    except typer.BadParameter as error:
        _fail(error.format_message())
    except (typer.TyperException, PenstockError) as error:
        _fail(str(error))
    except ModuleNotFoundError as error:
        _fail(str(missing(error)))
    except OSError as error:
        _fail(f"cannot write the output: {error.strerror}", status=1)
    except BrokenProcessPool:
        _fail("a worker process died, perhaps out of memory: try again with fewer --jobs", status=1)
    except SystemError as error:
        # How Numba reports a Ctrl-C in compiled code.
        if not isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        _fail("stopped", status=_INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: str, status: int = 2) -> NoReturn:
    if message:  # without a command, help was printed instead
        sys.stderr.write(f"penstock: {' '.join(message.split())}\n")
    sys.exit(status)
