#!/bin/sh
# Makes .venv: the package with its dependencies, and a link to a Java runtime. Quick and offline when all is there.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONHOME PYTHONPATH

. scripts/apt.sh

# find_python: sets python to a Python 3.11+ that can make virtual environments, never to the one inside .venv.
find_python() {
  about='import ensurepip, sys, venv; print(sys._base_executable); sys.exit(sys.version_info < (3, 11))'
  for name in python3.13 python3.12 python3.11 python3; do
    python=$("$name" -c "$about" 2>/dev/null) && return
  done
  return 1
}

# find_java COMMAND...: sets java_home to the home of the first Java 17+; notes in old_java what is too old.
find_java() {
  for java; do
    about=$("$java" -XshowSettings:properties -version 2>&1) || continue
    major=$(printf '%s\n' "$about" | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
    java_home=$(printf '%s\n' "$about" | sed -n 's/^ *java\.home = //p')
    if [ "${major:-0}" -ge 17 ] && [ -x "$java_home/bin/java" ]; then return; fi
    if [ -n "$major" ]; then old_java=" ($java is Java $major)"; fi
  done
  return 1
}

find_python || {
  say "no Python 3.11 or newer with its venv module is here: asking apt-get for one"
  apt_install python3.13-venv python3.12-venv python3.11-venv python3-venv || true
  find_python || die "needs Python 3.11 or newer with its venv module: install it (Debian: python3-venv), then run make again"
}

old_java=
find_java "${JAVA_HOME:-/nowhere}/bin/java" java || {
  say "no Java 17 or newer is here$old_java: asking apt-get for one"
  { apt_install openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless default-jre-headless &&
    find_java java /usr/lib/jvm/*/bin/java; } ||
    die "Spark needs Java 17 or newer$old_java: install a JRE or point JAVA_HOME to one, then run make again"
}

# The stamp is written last, so that an interrupted run, a new pyproject.toml or a moved checkout starts afresh.
stamp=.venv/.complete
wanted=$(pwd; cat pyproject.toml scripts/setup.sh scripts/apt.sh | cksum)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
  say "making .venv with $python"
  rm -rf .venv
  "$python" -m venv .venv || die "could not make .venv with $python: see the message above"
  pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
  say "downloading and installing packages into .venv, Spark among them: a few minutes the first time"
  { pip install 'pip>=25.1' && pip install --editable '.[all]' --group dev; } ||
    die "could not install the packages: see pip's message above, check the network and pip's settings, then run make again"
  printf '%s\n' "$wanted" >"$stamp"
  say "set up, with the Java of $java_home"
fi
ln -sfn "$java_home" .venv/jre
