#!/bin/sh
# Tests and builds the plugin, and puts what is to be installed into plugin/.
set -eu
cd "$(dirname "$0")"
cargo test --quiet
cargo build --release --quiet --target wasm32-unknown-unknown
mkdir -p plugin
cp plugin.yaml plugin/plugin.yaml
built="$(echo '@NAME@' | tr - _).wasm"
cp "${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/release/$built" "plugin/@NAME@.wasm"
