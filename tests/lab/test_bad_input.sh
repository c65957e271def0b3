#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What is wrong with the input is said in one line that names file and place, with the right exit code, and before
# anything is made: no object in the Swarm, no run folder.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use bad
at_end 'docker network rm muster-test-clash >/dev/null 2>&1'
build=${MUSTER_BUILD:-$source_root/build/release}
cd "$test_folder"

expect_refusal() { # EXIT CODE, WHOLE LINE AS A PATTERN, COMMAND...
    local code=$1 line=$2
    shift 2
    step "$line"
    run 30 "$@"
    expect_status "$code"
    expect_equal "$(wc -l <output)" 1 "lines"
    expect_line "^$line\$"
    expect_equal "$(ls "$MUSTER_RUNS")" "" "run folders"
}

# --- stack files: exit code 2, file:line:column and the path of keys --------------------------------------

edited() { # SED EXPRESSION: run a copy of the stack file that it spoilt
    sed -e "s|\\.\\./\\.\\./trainer|$source_root/trainer|" -e "$1" "$stacks/workload1.yml" >bad.yml
    cmp -s bad.yml <(sed -e "s|\\.\\./\\.\\./trainer|$source_root/trainer|" "$stacks/workload1.yml") && fail "'$1' changes nothing"
    case_command=("$muster" run -c bad.yml bad)
}
place='bad\.yml:[1-9][0-9]*:[1-9][0-9]*'

while IFS='|' read -r expression line; do
    edited "$expression"
    expect_refusal 2 "$line" "${case_command[@]}"
done <<CASES
s/^services:/sevices:/|muster: $place: the key 'sevices' is not known: did you mean 'services'\\?
s/^  healthcheck:/  helthcheck:/|muster: $place: services\\.w1: the key 'helthcheck' is not known: did you mean 'healthcheck'\\?
s/source: muster_key/source: muster_kee/|muster: $place: services\\.w1\\.secrets: the secret 'muster_kee' is not declared .*did you mean 'muster_key'\\?
s/source: model/source: modell/|muster: $place: services\\.w1\\.configs: the config 'modell' is not declared .*did you mean 'model'\\?
s/networks: .training./networks: [trainin]/|muster: $place: services\\.w1\\.networks: the network 'trainin' is not declared .*did you mean 'training'\\?
s/cpus: "0.5"/cpus: half/|muster: $place: services\\.collector\\.deploy\\.resources\\.limits\\.cpus: 'half' is not a number of processors .*
s/interval: 10s/interval: 5 parsecs/|muster: $place: services\\.w1\\.healthcheck\\.interval: '5 parsecs' is not a duration .*
s/subnet: .*/subnet: 10.0.0.0\\/33/|muster: $place: networks\\.training\\.ipam\\.config\\[0\\]: '10\\.0\\.0\\.0/33' is not a subnet .*
s/node.hostname ==/node.hostnam ==/|muster: $place: services\\.w1\\.deploy\\.placement: .*a node has no 'node\\.hostnam' .*
s/^  w1:/	w1:/|muster: $place: a tab stands at the beginning of this line.*
s/^    <<: \*worker\$/    <<: *wroker/|muster: $place: .*wroker.*
CASES

run_workload1() { case_command=("$muster" run -c "$stacks/workload1.yml" "$@" bad); }
file='/.*/workload1\.yml:[1-9][0-9]*:[1-9][0-9]*'

expect_refusal 2 "muster: open 'none\\.yml': No such file or directory" "$muster" run -c none.yml bad
run_workload1 -e MUSTER_MODEL_FILE=/no/model.json
expect_refusal 2 "muster: $file: configs\\.model: open '/no/model\\.json': No such file or directory" "${case_command[@]}"

# --- options: exit code 2 and a hint ----------------------------------------------------------------------

run_workload1 --leaf
expect_refusal 2 "muster: unknown option '--leaf'; did you mean '--leave'\\?" "${case_command[@]}"
expect_refusal 2 "muster: unknown verb 'rum'; did you mean 'run'\\? .*" "$muster" rum
run_workload1 -e MUSTER_WORKERS=many
expect_refusal 2 "muster: variable MUSTER_WORKERS: 'many' is not a whole number .*" "${case_command[@]}"
expect_refusal 2 "muster: '-bad' is not a stack's name.*" "$muster" run -c "$stacks/workload1.yml" -- -bad

# --- what only the Swarm can tell, before the first write -------------------------------------------------

edited '/x-muster-generate/d'
expect_refusal 1 "muster: $place: secrets\\.muster_key: declared as external, but the swarm has no secret 'bad_muster_key'" \
    "${case_command[@]}"
run_workload1 -e MUSTER_NODE2=node7
expect_refusal 6 "muster: $file: services\\.w2: no node has node\\.hostname 'node7' \\(ready nodes: node1, node2, node3\\)" \
    "${case_command[@]}"
run_workload1 -e MUSTER_SUBNET=10.77.0.0/24
free='[0-9.]+/2[45] is free'
expect_refusal 1 "muster: $file: networks\\.training: subnet 10\\.77\\.0\\.0/24 overlaps node 'node1' .*; $free" \
    "${case_command[@]}"
docker network create -d overlay --subnet 10.81.0.0/24 muster-test-clash >/dev/null
run_workload1 -e MUSTER_SUBNET=10.81.0.128/25
expect_refusal 1 "muster: $file: networks\\.training: subnet .* overlaps network 'muster-test-clash' .*; $free" \
    "${case_command[@]}"

# --- the machine: exit code 1 -----------------------------------------------------------------------------

run_workload1 -o /proc/muster
expect_refusal 1 "muster: make folder '/proc/muster': .*" "${case_command[@]}"
touch occupied
run_workload1 -o occupied/runs
expect_refusal 1 "muster: .*'occupied.*': Not a directory" "${case_command[@]}"
run_workload1 -H unix:///tmp/none.sock
expect_refusal 1 "muster: connect to the engine at unix:///tmp/none\\.sock: No such file or directory" "${case_command[@]}"
run_workload1 -H "unix://$(node_socket node2)" # refused by the engine
expect_refusal 3 "muster: .*This node is not a swarm manager.*" "${case_command[@]}"
expect_equal "$(stack_objects bad)" "" "made in the swarm by what was refused"

# --- a worker without containers, in a node of the lab ----------------------------------------------------

mkdir data results
chmod 777 "$test_folder" results # the agent gives up root
cp "$source_root"/data/mnist/*.gz data/
model=$source_root/trainer/models/mnist-cnn.json
agent=("$lab" exec node1 "$build/node-agent/muster-agent" train --out results --epochs 1 --steps 2 --batch 4)
truncate -s 500000 data/train-images-idx3-ubyte.gz
expect_refusal 2 "muster-agent: read 'data/train-images-idx3-ubyte\\.gz': truncated .*" \
    "${agent[@]}" --standalone --model "$model" --data data
gzip -dc "$source_root/data/mnist/train-images-idx3-ubyte.gz" 2>/dev/null | head -c 500000 >data/train-images-idx3-ubyte || true
rm data/train-images-idx3-ubyte.gz
expect_refusal 2 "muster-agent: read 'data/train-images-idx3-ubyte': truncated: 499984 bytes of values, the header says 47040000" \
    "${agent[@]}" --standalone --model "$model" --data data
sed 's/\[28, 28, 1\]/[28, 28, 3]/' "$model" >shapes.json
sed 's/"filters"/"filterz"/' "$model" >key.json
expect_refusal 2 "muster-agent: .*28 x 28 x 3, .*28 x 28 x 1" \
    "${agent[@]}" --standalone --model shapes.json --data "$source_root/data/mnist"
expect_refusal 2 "muster-agent: key\\.json: layers\\[0\\] .*unknown key 'filterz', did you mean 'filters'\\?" \
    "${agent[@]}" --standalone --model key.json --data "$source_root/data/mnist"
expect_refusal 2 "muster-agent: subnet 10\\.99\\.0\\.0/24 is not attached here; attached are: eth0 10\\.77\\.0\\.0/24.*" \
    "${agent[@]}" --insecure --workers 2 --subnet 10.99.0.0/24 --model "$model" --data "$source_root/data/mnist"
expect_equal "$(ls results)" "" "results of what was refused"

# OpenBLAS's threads wait for memory without end, and are waited for when a process exits.
expect_refusal 2 "muster-agent: unknown verb 'nosuch'; .*" \
    bash -c 'ulimit -v 100000 && exec "$0" nosuch' "$build/node-agent/muster-agent"

# --- what only a worker can tell: its own line, and nothing left ------------------------------------------

step "a model that does not fit the data ends the run with the worker's own line"
run 60 "$muster" run -c "$stacks/workload1.yml" -e MUSTER_MODEL_FILE="$test_folder/shapes.json" bad
expect_status 7
expect_equal "$(tail -n 1 <<<"$output" | grep -cE "^muster: .*bad_w[123].*: muster-agent: .*28 x 28 x 3, .*28 x 28 x 1")" 1 \
    "lines that say why"
expect_stack_gone bad
