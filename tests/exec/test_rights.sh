#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who is who: CMD is the user that started all, the network part nobody in particular; the key is the network part's, and
# programs on other workers are launched for CMD's user alone.
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

need_command setpriv util-linux
namespaces 2
make_key
make_key own
chown 65532:65532 "$work/key"
chmod 400 "$work/key"
chmod 755 "$work"
unset MUSTER_USER

# Started as root: the program stays root; the network part is 65532, without any right.
cat >"$work/program.sh" <<'P'
echo "uid $(id -u) key ${MUSTER_KEY_FILE:-none} descriptors $(ls -l /proc/self/fd | grep -cE 'socket|anon_inode')"
while [ ! -e "$1" ]; do
    sleep 0.05
done
P
# Only what was there before may be passed on: none of the agent's sockets, event and signal descriptors.
# shellcheck disable=SC2012
inherited=$(ls -l /proc/self/fd | grep -cE 'socket|anon_inode' || true)
workers=()
for i in 1 2; do
    exec_worker "$i" --workers 2 --framework mpi --run-on all -- sh "$work/program.sh" "$work/go"
    workers+=("$last_pid")
done
for i in 1 2; do
    wait_for 40 "$work/w$i.out" "^uid 0 key none descriptors $inherited$"
done
network=$(pgrep -P "${workers[0]}" -f "exec --slot w1")
[ "$(awk '/^Uid:/ { print $2, $3, $4 }' "/proc/$network/status")" = "65532 65532 65532" ] || fail "the network part is not 65532"
for set in CapPrm CapEff CapInh CapAmb; do
    grep -q "^$set:.0*$" "/proc/$network/status" || fail "the network part has rights in $set"
done
grep -q "^NoNewPrivs:.1$" "/proc/$network/status" || fail "the network part could gain rights"
[ -n "${MUSTER_SANITIZED:-}" ] || [ "$(stat -c %u "/proc/$network/mem")" -eq 0 ] ||
    fail "others of its user may look into the network part's memory"

# Nobody but the program's user launches anything; not even the network part's own user.
for uid in 65532 1234; do
    inside 1 setpriv --reuid "$uid" --clear-groups "$MUSTER_AGENT" rsh w2 "id -u" >"$work/rsh.out" 2>"$work/rsh.err" && fail "uid $uid launched"
    [ ! -s "$work/rsh.out" ] || fail "uid $uid got an answer"
done
grep -q "uid 1234 asked for a program on another worker: only uid 0 may" "$work/w1.err" || fail "w1 does not say who asked"
[ "$(inside 1 "$MUSTER_AGENT" rsh w2 "id -u")" = 0 ] || fail "the program's user could not launch"
touch "$work/go"
all_end 40 0 "${workers[@]}"
rm "$work/go"

# Started as somebody else: everything is that user, and the key has to be that user's.
chown 4321 "$work/own"
mkdir -p "$work/tmp"
chmod 1777 "$work/tmp"
# shellcheck disable=SC2016
inside 1 setpriv --reuid 4321 --regid 4321 --clear-groups env TMPDIR="$work/tmp" "$MUSTER_AGENT" exec --workers 1 \
    --subnet 10.99.0.0/24 --key-file "$work/own" --events none -- sh -c 'id -u; stat -c %u:%a "$MUSTER_HOSTFILE"' \
    >"$work/own.out" 2>"$work/own.err" || fail "as another user: $(cat "$work/own.err")"
says own.out 4321 4321:600
[ -z "$(ls "$work/tmp")" ] || fail "a folder is left in TMPDIR"
inside 1 setpriv --reuid 4321 --regid 4321 --clear-groups "$MUSTER_AGENT" exec --workers 1 --subnet 10.99.0.0/24 \
    --key-file "$work/key" --events none -- echo never >"$work/own.out" 2>"$work/own.err" && fail "with a key that it may not read"
[ ! -s "$work/own.out" ] || fail "the program ran without a key"
grep -q "shared key" "$work/own.err" || fail "it does not say that the key is the matter"
echo "everybody is who they should be"
