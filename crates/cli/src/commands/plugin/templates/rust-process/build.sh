#!/bin/sh
# Tests and builds the plugin, and puts what is to be installed into plugin/.
# `./build.sh dev` builds faster what runs slower.
set -eu
cd "$(dirname "$0")"
profile="${1:-release}"
built="$profile"
[ "$profile" != dev ] || built=debug
cargo test --quiet
cargo build --quiet --profile "$profile"
mkdir -p plugin/bin
cp plugin.yaml plugin/plugin.yaml
cp "${CARGO_TARGET_DIR:-target}/$built/@NAME@" "plugin/bin/@NAME@"
