"""Python reads this at its start: Spark's workers take PySpark from where it is installed, and start in half the time.

Spark puts archives with its sources first, which every new process would compile anew.
"""

import os
import sys
from pathlib import Path

if any(Path(place, "pyspark").is_dir() for place in sys.path):
    sys.path[:] = [place for place in sys.path if Path(place).name != "pyspark.zip"]
if any(Path(place, "py4j").is_dir() for place in sys.path):
    sys.path[:] = [place for place in sys.path if not Path(place).name.startswith("py4j-")]

if "PENSTOCK_WALKS" in os.environ:
    import walk_recorder  # noqa: F401 - it starts by itself
