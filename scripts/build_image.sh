#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes muster's image as an archive for `docker load`, from nothing but the release build and the libraries that
# it links. No engine and no base image take part, and no time of day: the same input gives the same bytes, so the
# same image id, and the same digest after a push.
#
# What is in it, by size (Debian 12, x86-64): OpenBLAS 37 MB (kernels for every processor; it picks at start),
# example data 12, libcurl's closure 19 (of which the programs use HTTP over a Unix socket; Debian builds no smaller
# one), libcrypto 5, libgfortran 3. ICU's tables (31 MB, through libxml2) are replaced by an empty table, see
# image/icudata_stub.c. Considered and left: static linking (libxml2.a and libpcap.a want the same ICU and D-Bus),
# OpenBLAS for one processor (the image would not run on the next machine).
set -euo pipefail

MUSTER_PROGRAM=build_image
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

readonly IMAGE_LIMIT_BYTES=110000000
readonly IMAGE_UID=65532
readonly CHARTS=/usr/share/javascript/chart.js/chart.min.js
readonly PROGRAMS=(swarm/muster node-agent/muster-agent monitoring/muster-monitor)

usage() {
    cat <<USAGE
usage: build_image.sh [--build DIR] [-o FILE] [-t TAG] [--load] [--push REGISTRY]

Writes the image archive from a release build (cmake --preset release && cmake --build --preset release). Does
nothing when no input has changed. Prints the image id; with --push the reference by digest.

  --build DIR      the build's folder (build/release)
  -o FILE          the archive (muster-image.tar in the build's folder)
  -t TAG           the image's name (muster:latest)
  --load           load it into the engine that DOCKER_HOST or the docker client's context names
  --push REGISTRY  load it there, and push it to REGISTRY (host:port)

Environment:
  SOURCE_DATE_EPOCH  the time that all files carry, in seconds since 1970 (0)
  MUSTER_DOCKER      the docker client to use (docker)
USAGE
}

main() {
    root=$(repo_root)
    build=$root/build/release archive='' tag=muster:latest push='' load=''
    while (($#)); do
        case $1 in
        -h | --help) usage; exit 0 ;;
        --build) build=${2-}; shift 2 || usage_error "--build needs a folder" ;;
        -o | --output) archive=${2-}; shift 2 || usage_error "$1 needs a file" ;;
        -t | --tag) tag=${2-}; shift 2 || usage_error "$1 needs a name" ;;
        --push) push=${2-} load=1; shift 2 || usage_error "--push needs a registry" ;;
        --load) load=1; shift ;;
        *) usage_error "unknown argument '$1'" ;;
        esac
    done
    epoch=${SOURCE_DATE_EPOCH:-0}
    archive=${archive:-$build/muster-image.tar}
    [[ $epoch =~ ^[0-9]{1,11}$ ]] || die 2 "SOURCE_DATE_EPOCH=$epoch: not a number of seconds"
    [[ $tag =~ ^[a-z0-9][a-z0-9._/-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$ ]] || usage_error "-t '$tag': not an image's name"
    [[ $tag == *:* ]] || tag=$tag:latest
    [[ -z $push || $push =~ ^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?$ ]] || usage_error "--push '$push': not a registry"
    need_inputs

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    list_libraries
    list_inputs >"$work/inputs"
    # The record beside the archive names the inputs it was made of, and the archive's own size.
    if [[ -s $archive ]] && cmp -s "$work/inputs" <(sed 1d "$archive.inputs" 2>/dev/null) &&
        [[ $(sed -n 1p "$archive.inputs") == "$(stat -c %s "$archive")"\ * ]]; then
        id=$(sed -n '1s/^[^ ]* //p' "$archive.inputs")
        say "unchanged: $archive"
    else
        write_image
    fi
    if [[ -n $load ]]; then load_image; fi
    if [[ -n $push ]]; then push_image; else echo "$id"; fi
}

need_inputs() {
    local program missing=()
    need_commands strip=binutils ldd=libc-bin tar=tar cc=gcc
    for program in "${PROGRAMS[@]}"; do
        [[ -x $build/$program ]] || missing+=("$build/$program")
    done
    ((${#missing[@]} == 0)) ||
        die 2 "not built: ${missing[*]} (cmake --preset release && cmake --build --preset release)"
    for program in data/mnist data/letters trainer/models trainer/recipes; do
        [[ -d $root/$program ]] || die 2 "not there: $root/$program"
    done
}

# Fills `libraries` (NAME PATH a line), `loader` (the path that the programs name as their interpreter) and
# `library_folder`: the one that holds libc, since the loader looks there without a cache.
list_libraries() {
    local libc libgcc
    (cd "$build" && ldd "${PROGRAMS[@]/#/./}") >"$work/ldd"
    if grep -q 'not found' "$work/ldd"; then die 2 "a library is missing: $(grep -m 1 'not found' "$work/ldd" | xargs)"; fi
    loader=$(awk '$1 ~ /^\/.*\/ld[-.]/ { print $1; exit }' "$work/ldd")
    # libgcc_s is loaded by name when a thread is cancelled or exits. What NSS needs for files and DNS is part of
    # libc since glibc 2.34.
    libc=$(awk '$1 == "libc.so.6" { print $3; exit }' "$work/ldd")
    [[ -n $loader && -n $libc ]] || die 2 "$build: not programs of a GNU system"
    libgcc=$(dirname "$libc")/libgcc_s.so.1
    libraries=$({ awk '$2 == "=>" { print $1, $3 }' "$work/ldd"; [[ ! -e $libgcc ]] || echo "libgcc_s.so.1 $libgcc"; } | sort -u)
    library_folder=$(dirname "$libc")
    library_folder=/usr/${library_folder#/usr/}
    library_folder=${library_folder/\/usr\/\//\/usr\/}
}

list_inputs() {
    echo "tag $tag epoch $epoch"
    {
        printf '%s\n' "$here/build_image.sh" "$here/image/icudata_stub.c" "$loader"
        printf "$build/%s\n" "${PROGRAMS[@]}"
        cut -d' ' -f2 <<<"$libraries"
        find "$root/data" "$root/trainer/models" "$root/trainer/recipes" -type f | sort
        [[ ! -r $CHARTS ]] || echo "$CHARTS"
    } | tr '\n' '\0' | xargs -0 sha256sum
}

# --- the image --------------------------------------------------------------------------------------------

write_image() {
    local started=$SECONDS bytes
    mkdir -p "$work/image"
    stage_libraries "$work/libraries"
    stage_data "$work/data"
    stage_programs "$work/programs"
    check_closure
    # What changes least comes first: a new build of the programs is pushed and pulled as one small layer.
    layers=() diffs=()
    layer libraries
    layer data
    layer programs
    bytes=$(cat "$work"/image/*/layer.tar | wc -c)
    if ((bytes > IMAGE_LIMIT_BYTES)); then
        find "$work/libraries" "$work/data" "$work/programs" -type f -printf '%s %P\n' | sort -rn | head >&2
        die 1 "the image would be $((bytes / 1000000)) MB, the limit is $((IMAGE_LIMIT_BYTES / 1000000))"
    fi
    write_config
    # RepoTags and the order of the layers.
    printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":[%s]}]\n' "${id#sha256:}" "$tag" \
        "$(joined "${layers[@]}")" >"$work/image/manifest.json"
    mkdir -p "$(dirname "$archive")"
    pack "$work/image" 0 "" . >"$archive.new"
    mv "$archive.new" "$archive"
    { echo "$(stat -c %s "$archive") $id"; cat "$work/inputs"; } >"$archive.inputs"
    say "$archive: $((bytes / 1000000)).$(printf %02d $((bytes / 10000 % 100))) MB on disk, sha256 $(sha256_of "$archive"), $((SECONDS - started)) s"
}

stage_libraries() {
    local stage=$1 name path
    mkdir -p "$stage$library_folder" "$stage/etc"
    while read -r name path; do
        if [[ $name =~ ^libicudata\.so\.([0-9]+)$ ]]; then
            cc -shared -nostdlib -fPIC -O1 -D MUSTER_ICU_SYMBOL="icudt${BASH_REMATCH[1]}_dat" \
                -Wl,-soname,"$name" -Wl,--build-id=none -o "$stage$library_folder/$name" "$here/image/icudata_stub.c"
        else
            install -m 755 "$path" "$stage$library_folder/$name"
        fi
        strip --strip-unneeded "$stage$library_folder/$name"
    done <<<"$libraries"
    # One /usr, as the distributions have it: /lib and /lib64 are links into it.
    ln -s usr/lib "$stage/lib"
    mkdir -p "$stage/usr$(dirname "$loader")"
    [[ $(dirname "$loader") != /lib64 ]] || ln -s usr/lib64 "$stage/lib64"
    install -m 755 "$loader" "$stage/usr$loader"

    # The uid that workers change to. /etc/hosts and resolv.conf come from the engine.
    printf 'root:x:0:0:root:/:/nonexistent\nmuster:x:%d:%d:muster:/state:/nonexistent\n' $IMAGE_UID $IMAGE_UID >"$stage/etc/passwd"
    printf 'root:x:0:\nmuster:x:%d:\n' $IMAGE_UID >"$stage/etc/group"
    printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$stage/etc/nsswitch.conf"
}

stage_data() {
    local share=$1/usr/share/muster
    mkdir -p "$share/models" "$share/recipes"
    cp -R "$root/data" "$share/data"
    find "$root/trainer/models" -name '*.json' -exec cp -t "$share/models" {} +
    find "$root/trainer/recipes" -name '*.json' -exec cp -t "$share/recipes" {} +
    # What draws the monitor's page, where the monitor looks for it. Without it the page has tables only.
    if [[ -r $CHARTS ]]; then
        install -D -m 644 "$CHARTS" "$1$CHARTS"
    else
        say "no $CHARTS (Debian: libjs-chart.js): the monitor's page will have no charts"
    fi
}

stage_programs() {
    local stage=$1 program
    mkdir -p "$stage/usr/bin"
    for program in "${PROGRAMS[@]}"; do
        install -m 755 "$build/$program" "$stage/usr/bin/"
        strip "$stage/usr/bin/${program##*/}"
    done
}

# Each program must find all it needs inside the image, and nowhere else.
check_closure() {
    local program outside
    for program in "${PROGRAMS[@]##*/}"; do
        outside=$("$work/libraries/usr$loader" --inhibit-cache --library-path "$work/libraries$library_folder" \
            --list "$work/programs/usr/bin/$program" | grep -v -e "$work/libraries/" -e linux-vdso -e "$loader" || true)
        [[ -z $outside ]] || die 1 "$program would not start in the image: $(head -n 1 <<<"$outside" | xargs)"
    done
}

# pack FOLDER UID MODE NAME...: to stdout, without a trace of who packed it and when. MODE may be empty.
pack() {
    local folder=$1 owner=$2 mode=${3:-u=rwX,go=rX}
    shift 3
    tar -C "$folder" --sort=name --format=ustar --mtime="@$epoch" --owner="$owner" --group="$owner" --numeric-owner \
        --mode="$mode" -cf - "$@"
}

layer() {
    local name=$1 file=$work/$1.tar digest
    # shellcheck disable=SC2046 # the top level of a stage holds our own names only
    pack "$work/$name" 0 "" $(ls "$work/$name") >"$file"
    if [[ $name == data ]]; then
        mkdir -p "$work/owned/runs" "$work/owned/state" "$work/owned/tmp"
        pack "$work/owned" $IMAGE_UID 755 runs state >"$work/owned.tar"
        tar --concatenate -f "$file" "$work/owned.tar"
        pack "$work/owned" $IMAGE_UID 1777 tmp >"$work/owned.tar"
        tar --concatenate -f "$file" "$work/owned.tar"
    fi
    digest=$(sha256_of "$file")
    mkdir "$work/image/$digest"
    mv "$file" "$work/image/$digest/layer.tar"
    layers+=("$digest/layer.tar")
    diffs+=("sha256:$digest")
}

write_config() {
    local architecture created file=$work/config.json
    case $(uname -m) in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) die 1 "$(uname -m): no name for this processor in an image's configuration" ;;
    esac
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    cat >"$file" <<CONFIG
{"architecture":"$architecture","os":"linux","created":"$created","config":{"Env":["PATH=/usr/bin"],"Cmd":["muster-agent","--help"],"WorkingDir":"/"},"rootfs":{"type":"layers","diff_ids":[$(joined "${diffs[@]}")]},"history":[{"created":"$created","comment":"libraries"},{"created":"$created","comment":"data and models"},{"created":"$created","comment":"programs"}]}
CONFIG
    id=sha256:$(sha256_of "$file")
    mv "$file" "$work/image/${id#sha256:}.json"
}

# "a","b"
joined() {
    local list
    list=$(printf '"%s",' "$@")
    echo "${list%,}"
}

# --- the engine -------------------------------------------------------------------------------------------

load_image() {
    "${MUSTER_DOCKER:-docker}" load -q -i "$archive" >"$work/load" 2>&1 || die 1 "docker load: $(tail -n 1 "$work/load")"
    say "loaded as $tag"
}

push_image() {
    local reference=$push/${tag##*/} digest
    "${MUSTER_DOCKER:-docker}" tag "$tag" "$reference"
    "${MUSTER_DOCKER:-docker}" push "$reference" >"$work/push" 2>&1 || die 1 "docker push $reference: $(tail -n 1 "$work/push")"
    digest=$(sed -n 's/.*digest: \(sha256:[0-9a-f]\{64\}\).*/\1/p' "$work/push" | tail -n 1)
    [[ -n $digest ]] || die 1 "docker push $reference: no digest in the engine's answer"
    echo "${reference%:*}@$digest"
}

main "$@"
