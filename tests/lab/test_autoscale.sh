#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The autoscaler as a service of a stack, on real engines: a loaded service is scaled out and an idle one in, nothing
# moves during a rollout, what somebody else scales goes on from there, and so does a killed autoscaler. With
# MUSTER_TEST_LONG also a queue that another service reports, which scales workers from nothing and back.
set -euo pipefail
# shellcheck source=tests/lab/stack.sh
source "$(dirname "$0")/stack.sh"

stack_test
stack_use scaling
file=$test_folder/scaling.yml

# What burns a core, and what only waits: the machine's own shell.
shell_image() {
    local node stage=$test_folder/shell program
    mkdir -p "$stage/tmp"
    for program in sh sleep; do
        { type -P "$program"; ldd "$(type -P "$program")" | grep -o '/[^ ]*'; } | tar -C / -chf - -T - 2>/dev/null |
            tar -C "$stage" -xf -
    done
    for node in $MUSTER_LAB_NODES; do
        tar -C "$stage" -cf - . | docker_at "$node" import - muster-test-shell >/dev/null
    done
}

# The shipped stack, and services with short times in it: the same decisions as with long ones.
cat >"$file" <<'STACK'
version: "3.8"
x-labels: &labels
  muster.autoscale.target: "50"
  muster.autoscale.average: 2s
  muster.autoscale.window: 3s
  muster.autoscale.cooldown: 2s
services:
  busy:
    image: muster-test-shell
    command: [sh, -c, "while :; do :; done"]
    stop_grace_period: 1s
    deploy:
      replicas: 1
      labels:
        <<: *labels
        muster.autoscale.max: "3"
      resources: {limits: {cpus: "0.05"}}
  idle:
    image: muster-test-shell
    command: [sleep, "1000"]
    stop_grace_period: 1s
    deploy:
      replicas: 3
      labels:
        <<: *labels
        muster.autoscale.max: "5"
  rolling:
    image: muster-test-shell
    command: [sh, -c, "while :; do :; done"]
    stop_grace_period: 1s
    deploy:
      replicas: 2
      labels:
        <<: *labels
        muster.autoscale.min: "2"
        muster.autoscale.max: "2"
      resources: {limits: {cpus: "0.05"}}
      update_config: {parallelism: 1, delay: 3s, monitor: 1s}
  autoscaler:
    environment:
      MUSTER_INTERVAL: 1s
STACK
files=(-c "$stacks/autoscale.yml" -c "$file")

replicas_of() { docker service inspect --format '{{.Spec.Mode.Replicated.Replicas}}' "scaling_$1"; }
replicas_are() { [[ $(replicas_of "$1") == "$2" ]]; }
update_is() { [[ $(docker service inspect --format '{{if .UpdateStatus}}{{.UpdateStatus.State}}{{end}}' "scaling_$1") == "$2" ]]; }
events() { "$muster" logs --raw scaling autoscaler | grep '"event":"autoscale"' || true; }
has_event() { events | grep -qE -- "$1"; }
# What docker itself says of the tasks that run now.
tasks_running_of() { docker service ps --filter desired-state=running -q --no-trunc "scaling_$1" | sort; }
say_events() { output=$(events; "$muster" logs --raw --tail 20 scaling autoscaler) && fail "$1"; }

step "a stack with an autoscaler in it"
shell_image
run 60 "$muster" deploy --resolve-image never --timeout 50s "${files[@]}" scaling
expect_status 0
busy_first=$(tasks_running_of busy)
rolling_first=$(tasks_running_of rolling)

step "a loaded service is scaled out, an idle one in"
wait_until 30 "busy to have 3 tasks" replicas_are busy 3 || say_events "busy has $(replicas_of busy)"
wait_until 30 "idle to have 1 task" replicas_are idle 1 || say_events "idle has $(replicas_of idle)"
expect_equal "$(replicas_of rolling)" 2 "replicas of rolling, whose maximum it is"
has_event '"service":"scaling_busy","action":"out"' || say_events "no event for busy"
has_event '"service":"scaling_idle","action":"in"' || say_events "no event for idle"
# The label that it leaves restarts nothing. There may have been more than one by the time the deployment ended.
expect_equal "$(comm -23 <(echo "$busy_first") <(tasks_running_of busy))" "" "tasks of busy that were restarted"
docker service inspect --format '{{json .Spec.Labels}}' scaling_busy | grep -q 'muster.autoscale.state":"[^"]* out ' ||
    fail "no stamp on busy"

step "not during a rollout"
docker service update --detach --env-add GENERATION=2 --label-add muster.autoscale.max=4 scaling_rolling >/dev/null
wait_until 10 "the rollout to begin" update_is rolling updating
wait_until 10 "it to be held" has_event '"service":"scaling_rolling","action":"hold","cause":"rollout"' || say_events "not held"
update_is rolling updating || fail "the rollout was over before it was held"
expect_equal "$(replicas_of rolling)" 2 "replicas of rolling while it is rolled out"
# A twentieth of a core is little for a container to start with: on a busy machine each task takes ten seconds.
wait_until 90 "the rollout to end" update_is rolling completed || {
    output=$(docker service inspect --format '{{json .UpdateStatus}}' scaling_rolling && docker service ps --no-trunc scaling_rolling)
    fail "the rollout does not end"
}
wait_until 15 "rolling to have 4 tasks, now that it may" replicas_are rolling 4 || say_events "rolling has $(replicas_of rolling)"
[[ $(tasks_running_of rolling) != *"${rolling_first%%$'\n'*}"* ]] || fail "nothing was rolled out"

step "what somebody else scales goes on from there"
run 20 "$muster" scale -d scaling idle=4
expect_status 0
wait_until 20 "idle to have 1 task again" replicas_are idle 1 || say_events "idle has $(replicas_of idle)"
has_event '"service":"scaling_idle","action":"in","cause":"below-target","from":4' || say_events "it did not begin at 4"

step "killed, it goes on with what it finds: nothing is scaled for that"
node=$(docker service ps --filter desired-state=running --format '{{.Node}}' scaling_autoscaler)
task=$(docker service ps --filter desired-state=running -q --no-trunc scaling_autoscaler)
moves() { events | grep -E '"action":"(out|in)"' || true; }
others_before=$(moves | grep -cv '"service":"scaling_idle"' || true)
docker_at "$node" kill "$(docker inspect --format '{{.Status.ContainerStatus.ContainerID}}' "$task")" >/dev/null
has_another() {
    local now
    now=$(docker service ps --filter desired-state=running --format '{{.ID}} {{.CurrentState}}' --no-trunc scaling_autoscaler)
    [[ $now == *" Running "* && $now != "$task "* ]]
}
wait_until 30 "another autoscaler" has_another || say_events "none came"
run 20 "$muster" scale -d scaling idle=3
expect_status 0
wait_until 20 "idle to have 1 task again" replicas_are idle 1 || say_events "idle has $(replicas_of idle)"
expect_equal "$(replicas_of busy) $(replicas_of rolling)" "3 4" "replicas of busy and rolling"
expect_equal "$(moves | grep -cv '"service":"scaling_idle"' || true)" "$others_before" "moves of others"

step "labels that make no sense are named, and the others go on"
docker service update --detach --label-add muster.autoscale.max=many scaling_idle >/dev/null
run 20 "$muster" autoscale --once --interval 1s --dry-run -m 127.0.0.1:1 scaling
expect_status 2
expect_line "service 'scaling_idle': label 'muster.autoscale.max': 'many'"
wait_until 10 "the event" has_event '"service":"scaling_idle","action":"hold","cause":"bad-labels"' || say_events "no event"

if [[ -n ${MUSTER_TEST_LONG:-} ]]; then
    step "a queue that another service reports: from nothing to four, and back"
    mkdir "$test_folder/queue"
    echo 17 >"$test_folder/queue/length"
    chmod -R a+rX "$test_folder"
    cat >"$test_folder/queue.yml" <<STACK
version: "3.8"
services:
  broker:
    image: muster-test-shell
    labels: {muster.events: "true"}
    volumes: ["$test_folder/queue:/queue:ro"]
    stop_grace_period: 1s
    command:
      - sh
      - -c
      - |
        while read n </queue/length; do
          printf '{"event":"gauge","name":"queue","value":%s}\\n' "\$\$n"
          sleep 1
        done
  crew:
    image: muster-test-shell
    command: [sleep, "1000"]
    stop_grace_period: 1s
    deploy:
      replicas: 0
      labels:
        muster.autoscale.min: "0"
        muster.autoscale.max: "6"
        muster.autoscale.metric: gauge:queue
        muster.autoscale.source: broker
        muster.autoscale.target: "5"
        muster.autoscale.average: 2s
        muster.autoscale.window: 3s
        muster.autoscale.cooldown: 2s
STACK
    echo 17 >"$test_folder/queue/length"
    run 90 "$muster" deploy --resolve-image never --timeout 80s "${files[@]}" -c "$test_folder/queue.yml" scaling
    expect_status 0
    wait_until 60 "crew to have 4 tasks" replicas_are crew 4 || say_events "crew has $(replicas_of crew)"
    echo 0 >"$test_folder/queue/length"
    wait_until 60 "crew to have none" replicas_are crew 0 || say_events "crew has $(replicas_of crew)"
fi

step "it is removed as any other"
run 60 "$muster" rm scaling
expect_status 0
expect_stack_gone scaling
