//! The host of plugins that are Wasm components and modules.
