#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What becomes of a stack whose file changes: configs and secrets get versions, what is unchanged is left alone, and what
# cannot come up ends with its reason and its exit code, in bounded time.
set -euo pipefail
# shellcheck source=tests/lab/deploy.sh
source "$(dirname "$0")/deploy.sh"

deploy_test change both
cat >stack.yml <<'YML'
services:
  a:
    image: ${IMAGE:-muster-test/tiny:1}
    command: [sleep, "${SLEEP:-1000}"]
    stop_signal: SIGKILL
    secrets: [key]
    configs: [model]
    deploy:
      replicas: 2
      update_config: {order: stop-first, failure_action: rollback, monitor: 2s}
  b:
    image: muster-test/tiny:1
    command: [sleep, "1000"]
    stop_signal: SIGKILL
    deploy: {mode: global}
secrets: {key: {file: ./key}}
configs: {model: {file: ./model}}
YML

contents() { docker "$1" ls --filter label=com.docker.stack.namespace=change --format '{{.Name}}' | sort | xargs; }
tasks_of_service() { docker service ps -q --no-trunc --filter desired-state=running "$1" | sort; }
within() { # SECONDS WHAT: since $begun
    (($(now_ms) - begun < $1 * 1000)) || fail "$2 took $((($(now_ms) - begun) / 1000)) s"
}

step "a stack with a secret and a config comes up, but not for as long as asked"
run 30 "$muster" deploy --resolve-image never --timeout 8s --settle 60s -c stack.yml change
expect_status 4
expect_line "stack 'change' has not converged in time: all services are up, but have not been for long enough"

step "and then for long enough"
run 60 "${deploy[@]}" -c stack.yml change
expect_status 0
expect_equal "$(contents secret) $(contents config)" "change_key change_model"
first_a=$(tasks_of_service change_a) first_b=$(tasks_of_service change_b)

step "the same again writes nothing and restarts nothing"
version=$(docker service inspect --format '{{.Version.Index}}' change_a)
secret_version=$(docker secret inspect --format '{{.Version.Index}}' change_key)
run 60 "${deploy[@]}" -c stack.yml change
expect_status 0
expect_line "nothing to change"
expect_equal "$(docker service inspect --format '{{.Version.Index}}' change_a)" "$version" "version of change_a"
expect_equal "$(docker secret inspect --format '{{.Version.Index}}' change_key)" "$secret_version" "version of change_key"
expect_equal "$(tasks_of_service change_a)" "$first_a" "tasks of change_a"
run 20 "$muster" plan --resolve-image never -c stack.yml change
expect_status 0
expect_line '^keep +secret +change_key +content not compared'
run 20 "$muster" plan --ask-secrets --resolve-image never -c stack.yml change
expect_status 0
expect_no_line 'not compared'
expect_equal "$(docker secret inspect --format '{{.Version.Index}}' change_key)" "$secret_version" "version of change_key"

step "docker leaves it alone, too"
docker_options=(--resolve-image never)
if docker stack deploy --help | grep -q -- --detach; then docker_options+=(--detach=true); fi
# shellcheck disable=SC2016
sed 's/\${IMAGE:-\([^}]*\)}/\1/; s/\${SLEEP:-\([^}]*\)}/\1/; 1i version: "3.8"' stack.yml >docker.yml
run 60 "$docker_program" stack deploy "${docker_options[@]}" -c docker.yml change
expect_status 0
expect_equal "$(tasks_of_service change_a)" "$first_a" "tasks of change_a after docker stack deploy"

step "docker first, then muster, then docker, of a file that says more: no task restarts"
cat >both.yml <<'YML'
version: "3.8"
services:
  a:
    image: muster-test/tiny:1
    command: [sleep, "1000"]
    hostname: "{{.Service.Name}}-{{.Task.Slot}}"
    environment: {B: two, A: one, EMPTY: ""}
    labels: {z: last, a: first}
    stop_signal: SIGKILL
    stop_grace_period: 1s
    healthcheck: {test: [CMD, sleep, "0"], interval: 1s, retries: 5}
    cap_drop: [NET_RAW, CHOWN]
    cap_add: [SYS_NICE]
    ulimits: {nofile: {soft: 100, hard: 200}, nproc: 100}
    dns: [127.0.0.1]
    extra_hosts: ["one:127.0.0.2", "two:127.0.0.3"]
    logging: {driver: json-file, options: {max-size: 1m}}
    volumes: ["state:/state", {type: tmpfs, target: /scratch, tmpfs: {size: 1048576}}]
    networks: {inner: {aliases: [other]}, outer: }
    ports: # one published port of two protocols, and target ports that fall: docker keeps this order
      - {target: 9002, published: 9009, protocol: udp, mode: host}
      - {target: 9001, published: 9009, protocol: tcp, mode: host}
    configs: [{source: model, target: /model, mode: 0440}]
    secrets: [{source: key, uid: "1", mode: 0400}]
    deploy:
      replicas: 2
      labels: {role: test}
      resources: {limits: {cpus: "0.50", memory: 64M}, reservations: {memory: 8M}}
      restart_policy: {condition: on-failure, delay: 2s, max_attempts: 3}
      update_config: {parallelism: 1, delay: 1s, order: stop-first}
      placement: {max_replicas_per_node: 1, preferences: [{spread: node.labels.zone}]}
networks: {inner: {driver: overlay}, outer: {labels: {a: b}}}
volumes: {state: {labels: {c: d}}}
secrets: {key: {file: ./key}}
configs: {model: {file: ./model}}
YML
run 60 "$docker_program" stack deploy "${docker_options[@]}" -c both.yml both
expect_status 0
run 60 "$muster" wait --timeout 40s both
expect_status 0
first_both=$(tasks_of_service both_a)
run 60 "${deploy[@]}" -c both.yml both
expect_status 0
expect_line "nothing to change"
run 60 "$docker_program" stack deploy "${docker_options[@]}" -c both.yml both
expect_status 0
run 60 "$muster" wait --timeout 40s both
expect_status 0
expect_equal "$(tasks_of_service both_a)" "$first_both" "tasks of both_a"
run 60 "$muster" rm both
expect_status 0

step "a changed config becomes a version, and only its service is updated"
echo more >>model
run 20 "$muster" plan --resolve-image never -c stack.yml change
expect_status 10
expect_line 'create +config +change_model_[0-9a-f]{10} +content changed'
expect_no_line 'update +service +change_b'
run 60 "${deploy[@]}" -c stack.yml change
expect_status 0
expect_line 'updated service change_a'
[[ $(contents config) =~ ^change_model\ change_model_[0-9a-f]{10}$ ]] || fail "configs: $(contents config)"
expect_equal "$(tasks_of_service change_b)" "$first_b" "tasks of change_b"
[[ $(tasks_of_service change_a) != "$first_a" ]] || fail "change_a was not updated"

step "a changed secret as well; what a rollback needs stays, what nothing needs goes"
echo two >key
run 60 "${deploy[@]}" -c stack.yml change
expect_status 0
expect_equal "$(contents secret)" "change_key change_key_2" "secrets"
expect_equal "$(docker service inspect --format '{{range .Spec.TaskTemplate.ContainerSpec.Secrets}}{{.SecretName}}{{end}}' \
    change_a)" change_key_2 "secret of change_a"
[[ $(contents config) =~ ^change_model_[0-9a-f]{10}$ ]] || fail "configs: $(contents config)"
run 60 "${deploy[@]}" -c stack.yml change
expect_status 0
expect_line "nothing to change"

step "an image that fails is rolled back: exit code 5"
begun=$(now_ms)
SLEEP=nonsense run 90 "${deploy[@]}" -c stack.yml change
expect_status 5
expect_line "service 'change_a' was rolled back"
expect_line "invalid time interval"
within 60 "the rollback"
expect_equal "$(docker service inspect --format '{{index .Spec.TaskTemplate.ContainerSpec.Args 1}}' change_a)" 1000 "argument"
run 60 "${deploy[@]}" -c stack.yml change # the old file is what lives
expect_status 0

step "an image that nobody has: exit code 5, for it is rolled back as well"
IMAGE=muster-test/nowhere:1 run 90 "${deploy[@]}" -c stack.yml change
expect_status 5
expect_line "muster-test/nowhere:1"

step "a new service that crashes: exit code 6, with its last words"
begun=$(now_ms)
{
    cat stack.yml
} | sed 's/^secrets:/  c:\n    image: muster-test\/tiny:1\n    command: [sleep, nonsense]\n    deploy: {restart_policy: {delay: 100ms}}\n&/' >crash.yml
run 90 "${deploy[@]}" -c crash.yml change
expect_status 6
expect_line "last lines of service 'change_c':"
expect_line "invalid time interval"
expect_line "'change_c' will not converge \(crash loop\)"
within 40 "the verdict"
run 60 "${deploy[@]}" --prune -c stack.yml change
expect_status 0
expect_line "removed service change_c"

step "a pin to a node that does not exist: exit code 6, nothing written"
sed 's/deploy: {mode: global}/deploy: {placement: {constraints: [node.hostname == nowhere]}}/' stack.yml >pin.yml
run 20 "${deploy[@]}" -c pin.yml fresh
expect_status 6
expect_line "services.b: no node has node.hostname 'nowhere'"
expect_equal "$(stack_objects fresh)" "" "objects of stack fresh"

step "a subnet that overlaps: refused, nothing written"
{
    cat stack.yml
    echo 'networks: {default: {ipam: {config: [{subnet: 10.77.0.0/16}]}}}'
} >overlap.yml
run 20 "${deploy[@]}" -c overlap.yml fresh
((status != 0 && status != 124)) || fail "exit code $status"
expect_line 'networks.default: subnet 10.77.0.0/16 overlaps'
expect_equal "$(stack_objects fresh)" "" "objects of stack fresh"

step "a node that is drained during a rollout: the rest comes up"
at_end 'docker node update --availability active node2 >/dev/null'
# What Swarm takes off a drained node may be a task of the update: not a reason to go back.
sed 's/failure_action: rollback, monitor: 2s/failure_action: continue, monitor: 2s, delay: 2s/' stack.yml >slow.yml
SLEEP=999 begin roll "${deploy[@]}" -c slow.yml change
await_output roll 20 'updating'
docker node update --availability drain node2 >/dev/null
finish roll 60
expect_status 0
docker node update --availability active node2 >/dev/null

step "scale, up and down"
run 60 "$muster" scale --timeout 60s change a=3
expect_status 0
expect_line 'scaled service change_a: 2 -> 3'
run 60 "$muster" scale change a=1
expect_status 0
expect_equal "$(tasks_of_service change_a | wc -l)" 1 "tasks of change_a"

step "rm takes all versions away"
run 60 "$muster" rm change
expect_status 0
expect_stack_gone change
