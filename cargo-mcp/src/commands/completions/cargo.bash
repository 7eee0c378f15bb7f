
# Completes `cargo mcp …` like `cargo-mcp …`, and leaves other commands to the existing completions of cargo.
if ! complete -p cargo &>/dev/null; then
    if declare -F _comp_load >/dev/null; then _comp_load cargo
    elif declare -F _completion_loader >/dev/null; then _completion_loader cargo
    fi
fi
if [[ $(complete -p cargo 2>/dev/null) =~ \ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != _cargo_with_mcp ]]; then
    _cargo_mcp_other=${BASH_REMATCH[1]}
fi

_cargo_with_mcp() {
    local at=1
    [[ ${COMP_WORDS[1]} == +* ]] && at=2
    if [[ ${COMP_WORDS[at]} == mcp ]] && ((COMP_CWORD > at)); then
        COMP_WORDS=(cargo-mcp "${COMP_WORDS[@]:at+1}")
        COMP_CWORD=$((COMP_CWORD - at))
        _cargo_mcp cargo-mcp "$2" "$3"
    elif [[ -n ${_cargo_mcp_other-} ]]; then
        "$_cargo_mcp_other" "$@"
    elif ((COMP_CWORD == at)) && [[ mcp == "$2"* ]]; then
        COMPREPLY=(mcp)
    fi
}
complete -o bashdefault -o default -F _cargo_with_mcp cargo
