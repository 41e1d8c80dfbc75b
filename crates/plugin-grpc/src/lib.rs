//! The host of plugins that speak go-plugin's gRPC protocol.
