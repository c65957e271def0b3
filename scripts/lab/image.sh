# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# lab.sh load: one image for all nodes, named by digest. Sourced by lab.sh.

cmd_load() {
    (($# == 1)) || usage_error "load: needs an archive's file name or a tag"
    need_root load
    need_lab
    lab_lock
    local image=$1 name key reference id
    if [[ -f $image ]]; then
        key=$(sha256_of "$image")
    else
        name=$(node_with_image "$image") ||
            die 2 "load: '$image' is neither a file nor an image of any node"
        id=$(docker_on "$name" image inspect --format '{{.Id}}' "$image")
        key=${id#sha256:}
    fi
    reference=$(awk -v key="$key" '$1 == key { print $2 }' "$LAB_DIR/images" 2>/dev/null | tail -n 1 || true)
    if [[ -n $reference ]] && nodes_have "$reference"; then
        say "already there: $reference"
    else
        if [[ -f $image ]]; then archive_load "$image"; else image_push "$name" "$image"; fi
        image_pull "$reference"
        echo "$key $reference" >>"$LAB_DIR/images"
    fi
    printf '%s\n' "$reference" >"$LAB_DIR/image.new"
    mv "$LAB_DIR/image.new" "$LAB_DIR/image"
    printf '%s\n' "$reference"
}

node_with_image() {
    local name
    for name in $(node_names); do
        if docker_on "$name" image inspect "$1" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
    return 1
}

nodes_have() {
    local name
    for name in $(node_names); do
        docker_on "$name" image inspect "$1" >/dev/null 2>&1 || return 1
    done
}

# Into every engine at once: a node that has the image by its id takes only the name from the registry, which
# spares it to fetch and unpack the layers. node1 pushes as soon as it has its own. Sets `reference`.
archive_load() {
    local archive=$1 name tag jobs=()
    for name in $(node_names); do
        docker_on "$name" load -q -i "$archive" >"$LAB_DIR/nodes/$name/load" 2>&1 &
        jobs+=($!)
    done
    jobs_wait "${jobs[0]}" || load_failed "$archive" node1
    tag=$(sed -n 's/^Loaded image: //p' "$LAB_DIR/nodes/node1/load" | head -n 1)
    [[ -n $tag ]] || die 2 "load '$archive': the archive names no image"
    image_push node1 "$tag"
    for name in $(node_names); do
        jobs_wait "${jobs[${name#node} - 1]}" || load_failed "$archive" "$name"
    done
}

# What the engine cannot read as an image is a bad input file.
load_failed() { die 2 "load '$1' into $2: $(tail -n 1 "$LAB_DIR/nodes/$2/load")"; }

# image_push NODE TAG: sets `reference` to the image's name by digest.
image_push() {
    local name=$1 tag=$2 repository log=$LAB_DIR/push.log digest
    repository=${tag##*/}
    repository=$LAB_REGISTRY/${repository%%[:@]*}
    docker_on "$name" tag "$tag" "$repository:lab"
    docker_on "$name" push "$repository:lab" >"$log" 2>&1 ||
        die 1 "push $repository: $(tail -n 1 "$log")"
    digest=$(sed -n 's/.*digest: \(sha256:[0-9a-f]\{64\}\).*/\1/p' "$log" | tail -n 1)
    [[ -n $digest ]] || die 1 "push $repository: no digest in the engine's answer"
    reference=$repository@$digest
}

# Waits for all, and one refusal fails the whole.
image_pull() {
    local reference=$1
    local name jobs=()
    for name in $(node_names); do
        docker_on "$name" pull -q "$reference" >"$LAB_DIR/nodes/$name/pull" 2>&1 &
        jobs+=($!)
    done
    jobs_wait "${jobs[@]}" || die 1 "pull $reference: $(tail -qn 1 "$LAB_DIR"/nodes/*/pull | sort -u | xargs)"
}
