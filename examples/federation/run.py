"""Three sites on this machine, as three processes, and the account over all of them.

    python run.py [--seconds S]                         # the site files here, over a folder
    python run.py --kafka [--seconds S]                 # the same over Kafka, with a broker of its own
    python run.py --bench [--faults] [--kafka] [--json FILE]   # `penstock bench federation`, with a broker of its own

A broker is brought by Maven, as for examples/kafka.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from penstock import hardware
from penstock.bench.federation import Effort, FolderWire, KafkaWire, bench_faults, bench_federation
from penstock.errors import PenstockError

HERE = Path(__file__).parent
SITES = ("west", "north", "east")
#: Three JVMs on few cores: what a compiler would gain is less than it takes.
SMALL_JVM = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
PENSTOCK = [sys.executable, "-c", "from penstock.cli.main import main; main()"]


def show(folder: Path, servers: str | None, seconds: float) -> int:
    """Run copies of the site files here; the number of the process's end."""
    for site in SITES:
        text = (HERE / f"{site}.yaml").read_text()
        if servers is not None:
            text = re.sub(r"transport: .*", f"transport: {{kafka: '{servers}'}}", text)
        (folder / f"{site}.yaml").write_text(text)
    conf = ["--conf", "spark.driver.memory=600m", "--conf", "spark.sql.shuffle.partitions=1"]
    running = [
        subprocess.Popen(
            [*PENSTOCK, "site", str(folder / f"{site}.yaml"), "--cores", "1", *conf],
            env=os.environ | SMALL_JVM,
            stdout=None if site == "west" else subprocess.DEVNULL,  # one of them is enough to watch
        )
        for site in SITES
    ]
    folders = [folder / "out" / site for site in SITES]
    until_s = None  # time counts from when all have run a batch: three JVMs may take long to start
    try:
        while all(one.poll() is None for one in running) and (until_s is None or time.monotonic() < until_s):
            time.sleep(0.5)
            if until_s is None and all(any(one.glob("account/*/*.account")) for one in folders):
                until_s = time.monotonic() + seconds
    except KeyboardInterrupt:
        pass
    for one in running:
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
    ended = [one.wait() for one in running]
    words = [word for one in folders for word in ("--account", str(one))]
    return max(*ended, subprocess.run([*PENSTOCK, "site", *words], check=False).returncode)


def bench(folder: Path, wire: FolderWire | KafkaWire, given: argparse.Namespace) -> int:
    """Run the benchmark; print its numbers."""
    effort = Effort(given.settle, given.measure)
    run = bench_faults if given.faults else bench_federation
    found = run(folder, effort, wire, lambda: print("done with one run", flush=True))
    found["machine"] = hardware.describe()
    text = json.dumps(found, indent=2)
    if given.json:
        Path(given.json).write_text(text + "\n")
    for row in found["rows"]:
        print(f"{row.get('policy') or row['when']}: Jain {row['jain']:.3f}, at each instant {row['jain_instant']:.3f}")
    return 0


def main() -> int:
    """Do what was asked, and leave nothing behind; the number of the process's end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    for flag in ("--kafka", "--bench", "--faults"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--settle", type=float, default=Effort.settle_s)
    parser.add_argument("--measure", type=float, default=Effort.measure_s)
    parser.add_argument("--json")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or sites would go on for themselves
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="penstock-federation-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        broker = None
        if given.kafka:
            sys.path.insert(0, str(HERE.parent / "kafka"))
            import broker as kafka  # noqa: PLC0415 - only with Kafka

            try:
                broker = stack.enter_context(kafka.Broker(folder / "broker"))
            except kafka.UnavailableError as error:
                print(error, file=sys.stderr)
                return 2
        try:
            if given.bench:
                wire = KafkaWire(broker.address, broker.stop, broker.start) if broker else FolderWire(folder / "wire")
                return bench(folder, wire, given)
            return show(folder, broker.address if broker else None, given.seconds)
        except PenstockError as error:
            print(error, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
