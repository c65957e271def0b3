#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# compose/stacks/monitoring.yml as it is shipped, with a training beside it and Debian's Prometheus in the place of the
# image that the stack names: every node's monitor is scraped, dashboards' queries return data, promtool complains about
# nothing but cAdvisor's own names, and an alert fires when a worker is killed.
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"
# shellcheck source=tests/lab/monitor.sh
source "$(dirname "$0")/monitor.sh"

queries=$source_root/tests/monitoring/data/dashboards/queries.txt
for program in prometheus promtool curl; do
    type -P "$program" >/dev/null || { say "needs $program"; exit 77; }
done

stack_test
stack_use monitoring watched

step "an image of Prometheus on the manager"
small_image "$(node_socket node1)" muster-test-prometheus:1 prometheus
at_end 'docker_at node1 rmi -f muster-test-prometheus:1 >/dev/null 2>&1'
sed "s|\.\./\.\./monitoring|$source_root/monitoring|" "$stacks/monitoring.yml" >"$test_folder/monitoring.yml"

step "the stack as it is shipped, deployed by muster"
export MUSTER_PROMETHEUS_IMAGE=muster-test-prometheus:1
run 120 "$muster" deploy -c "$test_folder/monitoring.yml" monitoring
expect_status 0
monitors_run() {
    local states
    states=$(docker service ps monitoring_monitor --filter desired-state=running --format '{{.CurrentState}}')
    (($(grep -c ^Running <<<"$states") == 3))
}
wait_until 60 "a monitor on each node" monitors_run
# What the stack's own image begins with.
started_as="/usr/bin/prometheus --config.file=/etc/prometheus/prometheus.yml --storage.tsdb.path=/prometheus"
run 60 docker service update --quiet --detach --args "$started_as" monitoring_prometheus
expect_status 0
run 60 docker service scale --detach monitoring_prometheus=1
expect_status 0

step "a training, and a container as Compose would start it"
begin train "$muster" run -c "$stacks/workload1.yml" -e MUSTER_EPOCHS=400 -e MUSTER_STEPS=20 -e MUSTER_BATCH=16 watched
docker_at node1 run -d --name shop-web-1 --cpus 0.1 -m 64m --memory-reservation 32m \
    --label com.docker.compose.project=shop --label com.docker.compose.service=web \
    --label com.docker.compose.version=2.1 --label com.docker.compose.container-number=1 \
    muster-test-prometheus:1 /usr/bin/prometheus --config.file=/dev/null --storage.tsdb.path=/tmp/data >/dev/null
at_end 'docker_at node1 rm -f shop-web-1 >/dev/null 2>&1'

prometheus_runs() { container_of monitoring prometheus; }
wait_until 60 "Prometheus to run" prometheus_runs
asked=(nsenter "--net=/proc/$pid/ns/net" python3 "$source_root/tests/lab/monitor_queries.py" 127.0.0.1:9090)
run 90 "${asked[@]}" --until 60 'count(up{job="muster"} == 1) == 3'
expect_status 0
await_output train 60 'found each other'
run 90 "${asked[@]}" --until 60 'count(muster_members == 3 and on (slot, instance) muster_step > 0) == 3'
expect_status 0

step "promtool finds nothing but cAdvisor's own names"
run 30 "$lab" exec node1 curl -sf http://127.0.0.1:8080/metrics
expect_status 0
printf '%s\n' "$output" >"$test_folder/page"
promtool check metrics <"$test_folder/page" >"$test_folder/complaints" 2>&1 || true
sed -i -e '/^cadvisor_version_info label names should/d' -e '/^container_memory_failcnt counter/d' \
    -e '/^container_fs_inodes_total non-counter/d' "$test_folder/complaints"
expect_equal "$(<"$test_folder/complaints")" '' "complaints"

step "a worker is killed: an alert, and data for every panel"
container_of watched w2
docker_at "$node" kill "$container" >/dev/null
container_of monitoring prometheus
run 240 "${asked[@]}" "$queries" MusterWorkersLost
expect_status 0
say "$output"

kill -INT "${pids[train]}"
finish train 60
