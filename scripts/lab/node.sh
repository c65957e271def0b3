#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs inside one node's network, UTS and mount namespaces; only lab.sh calls it.
#   node.sh setup NODE ADDRESS/PREFIX FOLDER...  name, interfaces, a /run and FOLDERs of its own
#   node.sh engine CONFIG                        becomes dockerd
set -euo pipefail

setup() {
    local name=$1 address=$2 folder resolver
    shift 2
    hostname "$name"
    ip -batch - <<BATCH
link set lo up
addr add $address dev eth0
link set eth0 up
BATCH
    echo 1 >/proc/sys/net/ipv4/ip_forward

    # A /run of its own keeps the machine's engine out of sight (dockerd would adopt a running
    # /run/containerd/containerd.sock, a task that mounts /var/run/docker.sock would drive the machine's
    # engine) and takes what this engine leaves there (shims' sockets, its network namespaces, the iptables
    # lock) away with the namespace.
    mount -t tmpfs -o mode=755 muster-run /run
    for folder in "$@"; do
        mount -t tmpfs -o mode=755 muster-empty "$folder"
    done

    # Nobody answers DNS in the lab. A name server on loopback refuses at once; one that is out of reach
    # would cost 20 s for every image that is looked up.
    resolver=$(readlink -m /etc/resolv.conf)
    if [[ $resolver == /run/* ]]; then
        mkdir -p "${resolver%/*}"
        echo 'nameserver 127.0.0.1' >"$resolver"
    elif [[ -e $resolver ]]; then
        echo 'nameserver 127.0.0.1' >/run/resolv.conf
        mount --bind /run/resolv.conf "$resolver"
    fi
}

# A clean environment: a proxy that the user's shell names is out of reach from here. A containerd that is slow under
# load is asked for its stacks before it is started anew, and leaves them in TMPDIR.
engine() {
    exec env -i PATH="$PATH" HOME=/root TMPDIR="${1%/*}/tmp" dockerd --config-file "$1"
}

verb=$1
shift
"$verb" "$@"
