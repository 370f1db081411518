"""The `penstock` command, also as `python -m penstock`."""

import sys

from penstock.extras import missing


def main() -> None:
    """Run the command, if what it is made with is installed."""
    try:
        from penstock.cli.main import main as run  # noqa: PLC0415 - or the error would be a trace
    except ModuleNotFoundError as error:
        sys.exit(f"penstock: {missing(error)}")
    run()


if __name__ == "__main__":
    main()
