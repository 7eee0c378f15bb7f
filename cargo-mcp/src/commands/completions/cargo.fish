
# Completes `cargo mcp …` like `cargo-mcp …`.
function __fish_cargo_with_mcp
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = mcp
end
complete -c cargo -n __fish_use_subcommand -a mcp -d 'Create, inspect, call, check and install MCP servers'
complete -c cargo -n __fish_cargo_with_mcp -f -a '(complete -C "cargo-mcp "(string join -- " " (string escape -- (commandline -opc)[3..]) (commandline -ct)))'
