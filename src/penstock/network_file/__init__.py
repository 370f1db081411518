"""Network files: query networks as YAML, for the simulator, `penstock roadmap` and `penstock run` alike."""

from penstock.network_file.load import Kind, NetworkFile, Sink, Source, load
from penstock.network_file.model import schema

__all__ = ["Kind", "NetworkFile", "Sink", "Source", "load", "schema"]
