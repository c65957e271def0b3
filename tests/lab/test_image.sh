#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The image: the same bytes for the same input, small, without a shell, and its programs start in it.
set -euo pipefail
# shellcheck source=tests/lab/lib.sh
source "$(dirname "$0")/lib.sh"

lab_test
build_image=$source_root/scripts/build_image.sh
build=${MUSTER_BUILD:-$source_root/build/release}
programs=(swarm/muster node-agent/muster-agent monitoring/muster-monitor)

step "bad usage and missing programs are refused with exit code 2"
run 10 "$build_image" --fast
expect_status 2
run 10 "$build_image" -t 'No Name'
expect_status 2
mkdir "$test_folder/empty"
run 10 "$build_image" --build "$test_folder/empty"
expect_status 2
expect_line 'not built: .*/swarm/muster .*/node-agent/muster-agent .*/monitoring/muster-monitor'
expect_equal "$(ls -A "$test_folder/empty")" "" "files made"

step "the same programs in two folders give the same archive"
copy=$test_folder/elsewhere
for program in "${programs[@]}"; do
    install -D "$build/$program" "$copy/$program"
done
run 120 "$build_image" --build "$build" -o "$test_folder/one.tar"
expect_status 0
id=$(tail -n 1 <<<"$output")
run 120 env TZ=Asia/Tokyo LC_ALL=C bash -c 'umask 077; exec "$@"' - "$build_image" --build "$copy" -o "$test_folder/two.tar"
expect_status 0
expect_equal "$(tail -n 1 <<<"$output")" "$id" "image id"
cmp "$test_folder/one.tar" "$test_folder/two.tar" || fail "the archives differ"

step "unchanged input: nothing is done; changed input: another image"
run 30 "$build_image" --build "$build" -o "$test_folder/one.tar"
expect_status 0
expect_line 'unchanged'
expect_equal "$(tail -n 1 <<<"$output")" "$id" "image id"
cp "$(type -P true)" "$copy/swarm/muster"
run 120 "$build_image" --build "$copy" -o "$test_folder/two.tar"
expect_status 0
[[ $(tail -n 1 <<<"$output") != "$id" ]] || fail "another program, the same image id"
rm "$test_folder"/two.tar*

step "at most 110 MB, no shell, the right owners"
mkdir "$test_folder/archive"
tar -C "$test_folder/archive" -xf "$test_folder/one.tar"
bytes=$(cat "$test_folder"/archive/*/layer.tar | wc -c)
((bytes <= 110000000)) || fail "$bytes bytes"
output=$(for layer in "$test_folder"/archive/*/layer.tar; do tar -tvf "$layer"; done)
rm -r "$test_folder/archive"
expect_no_line '/(sh|bash|dash|busybox|perl|python[0-9.]*)( |$)'
expect_line '^drwxr-xr-x 65532/65532 .* runs/$'
expect_line '^drwxr-xr-x 65532/65532 .* state/$'
expect_line '^drwxrwxrwt 65532/65532 .* tmp/$'
expect_no_line '^.(..s|.....s)' # nothing runs with more rights than its caller

step "loaded into engines: one digest, whoever pushes"
lab_use -n 2
run 120 "$lab" load "$test_folder/one.tar"
expect_status 0
reference=$(tail -n 1 <<<"$output")
[[ $reference =~ ^10\.77\.0\.254:5000/muster@sha256:[0-9a-f]{64}$ ]] || fail "reference '$reference'"
run 10 "$lab" load "$test_folder/one.tar"
expect_line 'already there'
expect_equal "$(tail -n 1 <<<"$output")" "$reference" "reference of the second load"
docker=$MUSTER_DOCKER
for node in $MUSTER_LAB_NODES; do
    eval "$("$lab" env "$node")"
    expect_equal "$MUSTER_IMAGE" "$reference" MUSTER_IMAGE
    expect_equal "$("$docker" image inspect --format '{{.Id}}' "$MUSTER_IMAGE")" "$id" "image id in $node"
done
run 120 "$build_image" --build "$build" -o "$test_folder/one.tar" --push "$MUSTER_LAB_REGISTRY/again"
expect_status 0
expect_equal "$(tail -n 1 <<<"$output")" "$MUSTER_LAB_REGISTRY/again/muster@${reference#*@}" "reference after another push"

step "the programs start with a read-only root and no rights"
for program in "${programs[@]##*/}"; do
    run 30 "$docker" run --rm --read-only --cap-drop ALL --security-opt no-new-privileges "$MUSTER_IMAGE" "$program" --help
    expect_status 0
done
run 30 "$docker" run --rm "$MUSTER_IMAGE" sh -c true
expect_status 127

step "what is no image is refused"
echo nonsense >"$test_folder/nonsense.tar"
run 30 "$lab" load "$test_folder/nonsense.tar"
expect_status 2
run 30 "$lab" load no-such-image:1
expect_status 2
eval "$("$lab" env)"
expect_equal "$MUSTER_IMAGE" "$reference" "MUSTER_IMAGE after refusals"
