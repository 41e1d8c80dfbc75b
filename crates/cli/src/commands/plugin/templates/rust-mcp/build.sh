#!/bin/sh
# Tests and builds the plugin, and puts what is to be installed into plugin/.
set -eu
cd "$(dirname "$0")"
cargo test --quiet
cargo build --release --quiet
mkdir -p plugin/bin
cp plugin.yaml plugin/plugin.yaml
cp "${CARGO_TARGET_DIR:-target}/release/@NAME@" "plugin/bin/@NAME@"
