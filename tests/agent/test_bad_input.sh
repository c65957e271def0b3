#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Wrong options and input files: exit code 2 and exactly one line that names the place. What fails at run time: 1.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 1
make_key
model="$source_dir/trainer/models/mnist-cnn.json"
data="$source_dir/data/mnist"

# expect STATUS TEXT ARGS...: run the agent with them
expect() {
    local expected=$1 text=$2 status=0
    shift 2
    inside 1 timeout 20 "$MUSTER_AGENT" "$@" >"$work/out" 2>"$work/err" || status=$?
    [ "$status" -eq "$expected" ] || fail "exit $status, not $expected: $* ($(cat "$work/err"))"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not exactly one line: $* ($(cat "$work/err"))"
    grep -qF -- "$text" "$work/err" || fail "'$text' is not in: $(cat "$work/err")"
}
expect 2 "expected a verb"
expect 2 "did you mean 'train'" trian
expect 2 "did you mean '--model'" train --modle x
expect 2 "unknown option '--banana'" train --banana
expect 2 "--model" train --data "$data"
expect 2 "'--workers'" train --model "$model" --data "$data" --workers 0
expect 2 "'--steps'" train --model "$model" --data "$data" --steps 1e3
# one FLAG TEXT VALUE: the same job with that option's value
one() {
    local flag=$1 text=$2 value=$3
    local -A options=([--model]="$model" [--data]="$data" [--workers]=2 [--subnet]=10.99.0.0/24 [--user]=none
        [--key-file]="$work/key" [--out]="$work/results")
    options[$flag]=$value
    local words=() option
    for option in "${!options[@]}"; do
        words+=("$option" "${options[$option]}")
    done
    expect 2 "$text" train "${words[@]}"
}

one --model "$work/absent.json" "$work/absent.json"
one --congestion "has no congestion control 'pigeon'" pigeon
one --congestion "1 to 15 bytes" homing-carrier-pigeon
one --model "$work" "$work"
echo '{"name": "x", "input": [28, 28], "layers": [' >"$work/cut.json"
one --model "$work/cut.json:1:" "$work/cut.json"
jq '(.layers[] | select(.type == "dense") | .units) |= 7' "$model" >"$work/shapes.json" 2>/dev/null || true
one --model "$work/shapes.json" "$work/shapes.json"
one --data "$work/no-data" "$work/no-data"

# Truncated data, each of its files in turn.
small_data
for file in "$data"/*ubyte.gz "$work"/data/*ubyte; do
    rm -rf "$work/cut"
    mkdir "$work/cut"
    ln -s "$(dirname "$file")"/* "$work/cut/"
    rm "$work/cut/$(basename "$file")"
    head -c $(($(stat -c %s "$file") - 100)) "$file" >"$work/cut/$(basename "$file")"
    one --data "$(basename "$file")" "$work/cut"
done

head -c 31 "$work/key" >"$work/short"
one --key-file "$work/short" "$work/short"
mkfifo "$work/pipe" # which nobody writes to: not waited for
one --key-file "expected a file, and it is a pipe" "$work/pipe"
one --key-file "$work/no-key" "$work/no-key"
one --subnet 10.98.0.0/24 10.98.0.0/24
one --subnet "'10.99.0.0/33'" 10.99.0.0/33
one --user "'--user'" 0
one --workers "'--workers'" 1025

# Not the input: the folder of results cannot be written.
expect 1 "$work/key" train --model "$model" --data "$data" --standalone --user none --out "$work/key/x"
expect 1 "$work/key" train --model "$model" --data "$data" --standalone --user none --out "$work/o" --state "$work/key/x"
mkdir -m 755 "$work/roots"
chmod 755 "$work"
expect 1 "$work/roots" train --model "$model" --data "$data" --standalone --out "$work/roots"
expect 1 "$work/roots" train --model "$model" --data "$data" --standalone --out "$work/o" --state "$work/roots"
expect 1 "no agent of port 7070" health
# The port is taken.
background 1 python3 -c '
import socket, time
s = socket.socket(); s.bind(("10.99.0.1", 7070)); s.listen(); print("ready", flush=True); time.sleep(30)' >"$work/busy.out"
wait_for 5 "$work/busy.out" ready
expect 1 "10.99.0.1:7070" train --model "$model" --data "$data" --workers 2 --subnet 10.99.0.0/24 --user none \
    --key-file "$work/key" --out "$work/results"
[ -z "$(ls -A "$work/results" 2>/dev/null)" ] || fail "something was left in the folder of results"
echo "every fault has its line"
