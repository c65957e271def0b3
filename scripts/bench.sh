#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmarks: a table on stdout, the same figures as JSON in build/release/bench-NAME.json. Figures mean something
# on a quiet machine only, and against each other, not against another day's.
set -euo pipefail

MUSTER_PROGRAM=bench
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/build.sh
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

usage() {
    cat <<USAGE
usage: bench.sh agents|step|sweep|exchange|ring|direct|membership|models|deploy|monitor [OPTIONS OF THE BENCHMARK]

  agents        3 to 64 agents on this machine: found and agreed, first step, and on again after a loss (root)
  step          whole training steps of one worker, beside the bare matrix products of the same shapes and torch; then
                of three workers on a lab's overlay, its links as they are and shaped, with every --exchange, beside
                torch's DistributedDataParallel if python3-torch is installed (root; --no-lab leaves the lab out)
  sweep         ARP and TCP sweeps of a network in a namespace of its own (root)
  exchange      sums over loopback by the ring and the direct exchange in turn: 1 to 16 workers, 0 to 2.77 million
                floats, every sum checked
  ring          the ring alone, and then ring and direct exchange on a lab's overlay, 2 to 4 workers, beside streams
                of iperf3 (root; --no-lab leaves the lab out)
  direct        the direct exchange alone
  membership    one agreement among 3 to 1000 workers: messages, bytes, memory and time
  models        the shipped models with their recipes and three seeds: accuracy and time; three workers as well (root)
  deploy        three services from nothing on a lab, by muster and by docker stack deploy in turns; and plan (root)
  monitor       100 control groups sampled once a second, and scraped: CPU, memory, milliseconds; then 100 containers
                on a lab, beside \`docker stats\` (root; --no-lab leaves the lab out)
USAGE
}

case ${1:-} in
--help | -h)
    usage
    exit 0
    ;;
agents) name=$1 program=(bench_agents.sh build/release/node-agent/muster-agent) ;;
models) name=$1 program=(bench_models.sh build/release/node-agent/muster-agent) ;;
ring) name=$1 program=(bench_ring.sh build/release/tests/bench) ;;
step) name=$1 program=(bench_step.sh build/release/tests/bench build/release/node-agent/muster-agent) ;;
deploy) name=$1 program=(bench_deploy.sh build/release/swarm/muster) ;;
monitor) name=$1 program=(bench_monitor.sh build/release/monitoring/muster-monitor) ;;
sweep | exchange | membership) name=$1 program=("bench_$1") ;;
direct) name=$1 program=(bench_exchange --exchange direct) ;;
*) usage_error "expected agents, step, sweep, exchange, ring, direct, membership, models, deploy or monitor, got '${1:-}'" ;;
esac
shift
cd "$(repo_root)"
# shellcheck disable=SC2119 # no further packages
need_build_packages libcmocka-dev
[[ $name != ring || " $* " == *" --no-lab "* ]] || need_packages iperf3 jq
build release -DMUSTER_TESTS=ON
json=$PWD/build/release/bench-$name.json # some go elsewhere
printf '%s, %s cores, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
if [[ ${program[0]} == *.sh ]]; then
    bash "tests/bench/${program[0]}" "${program[@]:1}" --json "$json" "$@"
else
    "build/release/tests/bench/${program[0]}" "${program[@]:1}" --json "$json" "$@"
fi
say "as JSON: ${json#"$PWD"/}"
