# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion of muster's command line for bash: verbs and options as the program's own help lists them, stacks and
# services as the Swarm has them.
#
#     source swarm/completions/muster.bash

# The option that the word before the cursor belongs to has a value.
_muster_takes_value() {
    "$1" help "$2" 2>/dev/null | grep -qE -- "(^| )$3(, --[a-z-]+)? [A-Za-z]"
}

_muster() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local verb='' stack='' i verbs host=() words='' prefix=''
    COMPREPLY=()
    # bash takes --format=j for three words; what is offered stands for the last of them.
    if [[ $word == = && $before == -* ]]; then
        word=''
    elif [[ $before == = && ${COMP_WORDS[COMP_CWORD - 2]} == -* ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word == --*=* ]]; then # a shell where = does not end a word
        before=${word%%=*} prefix=${word%%=*}= word=${word#*=}
    fi
    verbs=$("$program" --help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p')
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -H | --host | --context) host+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}") && ((++i)) ;;
        -*=*) ;;
        -*)
            if [[ ${COMP_WORDS[i + 1]} == = ]]; then
                ((i += 2))
            elif [[ -n $verb ]] && _muster_takes_value "$program" "$verb" "${COMP_WORDS[i]}"; then
                ((++i))
            fi
            while [[ ${COMP_WORDS[i + 1]} == = ]]; do ((i += 2)); done # -e NAME=VALUE
            ;;
        *)
            if [[ -z $verb ]]; then
                verb=${COMP_WORDS[i]}
            elif [[ -z $stack ]]; then
                stack=${COMP_WORDS[i]}
            fi
            ;;
        esac
    done

    case $before in
    -c | --compose-file | --env-file | --nodes-file | --monitors-*)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    -o | --out)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    --format) words='table json' ;;
    --log-format) words='text json' ;;
    --resolve-image) words='always changed never' ;;
    --context) words=$(command ls "${DOCKER_CONFIG:-$HOME/.docker}/contexts/meta" 2>/dev/null |
        while read -r i; do sed -n 's/.*"Name": *"\([^"]*\)".*/\1/p' "${DOCKER_CONFIG:-$HOME/.docker}/contexts/meta/$i/meta.json"; done) ;;
    *)
        if [[ -n $verb ]] && [[ $before == -* ]] && _muster_takes_value "$program" "$verb" "$before"; then
            return
        elif [[ -z $verb ]]; then
            if [[ $word == -* ]]; then words='--help --version --host --context --verbose --log-format'; else words="$verbs help"; fi
        elif [[ $verb == help ]]; then
            words=$verbs
        elif [[ $word == -* ]]; then
            words=$("$program" help "$verb" 2>/dev/null | grep -oE -- '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--[a-z-]+')
        elif [[ $verb == node ]]; then
            words=check
        elif [[ -z $stack || $verb == rm ]]; then
            words=$("$program" ls "${host[@]}" 2>/dev/null | awk 'NR > 1 { print $1 }')
        elif [[ $verb == logs || $verb == inspect || $verb == scale ]]; then
            words=$("$program" services "${host[@]}" "$stack" 2>/dev/null | awk -v s="${stack}_" 'NR > 1 { print substr($2, length(s) + 1) }')
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$word")
    if [[ $verb == scale && -n $stack && $word != -* && ${#COMPREPLY[@]} -gt 0 ]]; then
        COMPREPLY=("${COMPREPLY[@]/%/=}")
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _muster muster
