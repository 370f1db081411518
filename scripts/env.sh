# shellcheck shell=sh
# Read this from the root of the checkout (`. scripts/env.sh`) to work inside .venv, as make does.

export PATH="$PWD/.venv/bin:$PATH"
export JAVA_HOME="$PWD/.venv/jre" # a link to the Java that scripts/setup.sh chose

# Another Spark on this machine must not answer in place of the one in .venv.
unset SPARK_HOME SPARK_CONF_DIR PYSPARK_DRIVER_PYTHON PYSPARK_SUBMIT_ARGS PYTHONHOME PYTHONPATH
unset PYTHONDONTWRITEBYTECODE     # each of Spark's many Python workers would compile Penstock anew
export PYSPARK_PYTHON=python      # Spark's own default is the system's python3
export SPARK_LOCAL_IP=127.0.0.1   # a host name that does not resolve would stop Spark

export MPLBACKEND=Agg
export NO_MKDOCS_2_WARNING=1      # a banner about MkDocs 2, which the theme does not use
