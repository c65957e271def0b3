#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Images on real engines: --ship to nodes that lack one, a registry that wants a password, and node check, which finds
# what is wrong with nodes, their engines and the ways to them. (What a real node cannot be made to have, two of one name, a
# clock that is off, is in tests/faults/test_nodecheck.c.)
set -euo pipefail
# shellcheck source=tests/lab/deploy.sh
source "$(dirname "$0")/deploy.sh"

deploy_test ship private
read -ra nodes <<<"$MUSTER_LAB_NODES"
local_image=muster-test/shipped:$$ # nobody's so far
tiny_image "$(node_socket node1)" "$local_image"
forget_images() {
    local node
    for node in "${nodes[@]}"; do
        { docker_at "$node" image ls -q "${local_image%:*}" && docker_at "$node" image ls -q 10.77.0.1:5001/tiny; } | sort -u |
            xargs -r "$docker_program" -H "unix://$(node_socket "$node")" image rm -f >/dev/null 2>&1 || true
    done
}
at_end forget_images
for node in "${nodes[@]}"; do echo "$node unix://$(node_socket "$node")"; done >nodes
cat >stack.yml <<YML
services:
  all: &service
    image: $local_image
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    deploy: {mode: global}
  second:
    <<: *service
    deploy: {placement: {constraints: [node.hostname == ${nodes[1]}]}}
YML
# In the first node's namespaces, where the others' addresses are reached.
check() { run 60 "$lab" exec node1 "$muster" node check -H "$DOCKER_HOST" "$@"; }

step "node check finds nothing, but that an image is missing"
check
expect_status 0
expect_no_line ' failed '
expect_line '^node2 +port 7946/tcp +ok +open'
expect_line '^node1 +port 2377/tcp +ok +open'
expect_line '^node2 +mtu +ok +1500 on the way, packets of 1500 bytes come back'
check --nodes-file nodes -c stack.yml ship
expect_status 1
expect_line "^node1 +image +ok +$local_image"
expect_line "^node2 +image +failed +$local_image is missing, and no registry has it"
expect_line '^node3 +clock +ok +within '

step "from outside of the lab's network nothing is sent to its addresses"
run 20 "$muster" node check
expect_status 0
expect_line "^node1 +network +warning +ports and packet sizes are left out"
expect_no_line '^node. +(port|mtu)'

step "--ship puts it on the nodes that lack it, once"
run 60 "$muster" deploy --ship --nodes-file nodes --timeout 30s --dry-run -c stack.yml ship
expect_status 0
expect_line "would ship $local_image to node3"
run 60 "$muster" deploy --ship --nodes-file nodes --timeout 30s -c stack.yml ship
expect_status 0
expect_line "shipped $local_image to node2 \([0-9.]+ MB in"
expect_line "shipped $local_image to node3 "
expect_no_line 'shipped .* to node1'
for node in "${nodes[@]}"; do
    expect_equal "$(docker_at "$node" image inspect --format '{{.Id}}' "$local_image")" \
        "$(docker image inspect --format '{{.Id}}' "$local_image")" "the image on $node"
done
wait_until 10 "a task on each node, and one more" tasks_running ship $((${#nodes[@]} + 1))
run 60 "$muster" deploy --ship --nodes-file nodes -c stack.yml ship
expect_status 0
expect_no_line shipped
expect_line 'nothing to change'
check --nodes-file nodes -c stack.yml ship
expect_status 0

step "a node that the nodes file lacks, or whose engine does not answer: nothing is deployed"
tiny_image "$(node_socket node1)" "$local_image" # another one of that name
grep -v '^node3' nodes >fewer
run 30 "$muster" deploy --ship --nodes-file fewer -c stack.yml ship
expect_status 1
expect_line "node 'node3', which may run it, is not in the nodes file"
{ cat fewer && echo "node3 unix://$test_folder/nowhere"; } >dead
run 30 "$muster" deploy --ship --nodes-file dead -c stack.yml ship
expect_status 1
expect_line "to node 'node3': connect to the engine at unix://$test_folder/nowhere"
expect_equal "$(docker stack ps ship --filter desired-state=running -q | wc -l)" $((${#nodes[@]} + 1)) "tasks"

step "node check finds each fault of engines, ports and ways"
check --nodes-file dead -c stack.yml ship
expect_status 1
expect_line "^node3 +reachable +failed +connect to the engine at unix://$test_folder/nowhere"
sed "s|^node3 .*|node3 unix://$(node_socket node2)|; \$a stray unix:///nowhere" nodes >wrong
undo() {
    "$lab" exec node2 iptables -D INPUT -p tcp --dport 7946 -j DROP 2>/dev/null || true
    nsenter --net="$MUSTER_LAB_DIR/fabric" ip link set node3 mtu 1500
    "$lab" exec node1 ip link set eth0 mtu 1500
    docker node update --availability active node2 >/dev/null
}
at_end undo
docker node update --availability drain node2 >/dev/null
"$lab" exec node2 iptables -I INPUT -p tcp --dport 7946 -j DROP
# The fabric's end of node3's cable: full frames vanish there, and nobody says so.
nsenter --net="$MUSTER_LAB_DIR/fabric" ip link set node3 mtu 1400
sed 's/node.hostname == .*\]}/node.hostname == nowhere]}/' stack.yml >pinned.yml
check --nodes-file wrong -c pinned.yml ship
expect_status 1
expect_line "^node2 +state +warning +ready, but drain"
expect_line "^node2 +port 7946/tcp +failed +10\.77\.0\.2 from this machine: "
expect_line "^node3 +port 7946/tcp +ok "
expect_line "^node3 +mtu +failed +packets of 1500 bytes are lost on the way to 10\.77\.0\.3 or back"
expect_line "^node3 +identity +failed +the engine is 'node2'"
expect_line "^stray +name +failed +the nodes file has it"
expect_line "placement +failed .*services.second: no node has node.hostname 'nowhere'"
undo
"$lab" exec node1 ip link set eth0 mtu 1400
check
expect_status 1
expect_line "^node2 +mtu +failed +1400 on the way to 10\.77\.0\.2, and an overlay of 1450 needs 1500"
undo
run 60 "$muster" rm ship
expect_status 0

step "a registry that wants a password: nodes pull with what docker's configuration knows"
registry=10.77.0.1:5001
# bcrypt is the only hash that the registry takes.
perl -e 'print "me:", crypt("secret", "\$2y\$05\$" . "muster" x 3 . "musu"), "\n"' >htpasswd
cat >registry.yml <<YML
version: 0.1
log: {level: warn, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $test_folder/registry}}
http: {addr: "$registry"}
auth: {htpasswd: {realm: muster, path: $test_folder/htpasswd}}
YML
OTEL_TRACES_EXPORTER=none begin registry "$lab" exec node1 "$(command -v docker-registry || command -v registry)" serve "$test_folder/registry.yml"
answers() { "$lab" exec node1 bash -c ": <>/dev/tcp/${registry/:/\/}" 2>/dev/null; }
wait_until 10 "the registry" answers
printf '{"auths":{"%s":{"auth":"%s"}}}\n' "$registry" "$(printf me:secret | base64)" >"$DOCKER_CONFIG/config.json"
image=$registry/tiny:$$
tiny_image "$(node_socket node1)" "$image"
run 30 "$docker_program" push "$image"
expect_status 0
docker image rm "$image" >/dev/null
cat >private.yml <<YML
services:
  all:
    image: $image
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    deploy: {mode: global, restart_policy: {delay: 100ms}}
YML
run 60 "$muster" deploy --timeout 30s -c private.yml private
expect_status 6
expect_line 'no basic auth credentials|No such image'
run 60 "$muster" rm private
expect_status 0
run 60 "$muster" deploy --with-registry-auth --timeout 30s -c private.yml private
expect_status 0
expect_no_line warning
expect_line "stack 'private': 1 services up"
[[ $(docker service inspect --format '{{.Spec.TaskTemplate.ContainerSpec.Image}}' private_all) == "$image@sha256:"* ]] ||
    fail "the image has no digest"
wait_until 10 "a task on each node" tasks_running private ${#nodes[@]}
run 60 "$muster" rm private
expect_status 0
expect_stack_gone private
