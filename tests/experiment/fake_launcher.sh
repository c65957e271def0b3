#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A launcher whose hosts are all this machine: fake_launcher.sh CONTROL HOST CMD... Files in CONTROL change a host:
# "away-HOST", "version-HOST" (of muster), "agent-HOST", "clock-HOST" (an hour behind). pids-HOST tells who runs.
set -euo pipefail

control=$1 host=$2
shift 2
if [[ -e $control/away-$host ]]; then
    echo "connect to host $host port 22: No route to host" >&2
    exit 255
fi
if [[ -e $control/agent-$host ]]; then export FAKE_VERSION=0.0.9; fi
if [[ -e $control/version-$host ]]; then
    "$@" | sed -u 's/"muster":"[^"]*"/"muster":"0.0.9"/'
elif [[ -e $control/clock-$host ]]; then
    "$@" | sed -u "s/{\"host\":\"clock\",\"t\":[0-9.]*}/{\"host\":\"clock\",\"t\":$((EPOCHSECONDS - 3600))}/"
else
    echo $$ >>"$control/pids-$host"
    exec "$@"
fi
