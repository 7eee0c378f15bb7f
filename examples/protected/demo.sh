#!/bin/sh
# Starts an authorization server and this example, and shows how to log in and to call the tools. Requires Node.js 22 with npm.
#
#     sh demo.sh [COMMAND…]
#
# COMMAND starts the example; by default, cargo builds and runs it. The variable ADDRESS is where it listens.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$(mktemp -d)
trap 'rm -rf "$modules"' EXIT
trap 'exit 130' INT TERM
npm install --prefix "$modules" --no-audit --no-fund --loglevel=error --prefer-offline oidc-provider@9.13.3
# Node.js looks for packages next to the program.
cp "$here/authorization_server.mjs" "$modules"
[ $# -gt 0 ] || set -- cargo run --manifest-path "$here/Cargo.toml" --
node "$modules/authorization_server.mjs" "${ADDRESS:-127.0.0.1:8080}" "$@"
