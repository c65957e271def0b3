#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The way to one of three workers loses packets of more than 1250 bytes without a word, as an overlay on a tunnel may,
# while its interface takes 1500. They meet, agree, and train all the same: with smaller segments, once nothing came of
# the larger ones.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

namespaces 4
make_key
train_options 3

# Whole packets, as on a wire: a veth would hand larger ones on in one piece.
for i in 1 2 3; do
    inside "$i" python3 - <<'EOF'
import array, fcntl, socket, struct
for command in (0x1F, 0x24, 0x2C):  # ETHTOOL_STSO, ETHTOOL_SGSO and ETHTOOL_SGRO, to 0
    value = array.array("I", (command, 0))
    request = struct.pack("16sP", b"eth0", value.buffer_info()[0])
    fcntl.ioctl(socket.socket(), 0x8946, request)  # SIOCETHTOOL
EOF
done
ip -n "$prefix-fabric" link set v3 mtu 1250

undisturbed 4 3
for i in 1 2 3; do
    surviving "$i"
done
wait_for 10 "$work/w3.out" '"event":"view".*"world":3'
all_finish 1 2 3
grep -q "segments of 1160 bytes" "$work/w1.err" || fail "w1 does not say that it sends smaller packets"
echo "first step after $(field "$work/w1.out" first_step since_start_ms) ms"
