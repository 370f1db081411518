#!/bin/sh
# Finds Maven or installs it, if the distribution and our rights allow; without it, tests with Kafka are skipped.
set -eu
cd "$(dirname "$0")/.."
. scripts/apt.sh
command -v mvn >/dev/null || apt_install maven || say "Maven is missing: install it to run what needs Kafka"
