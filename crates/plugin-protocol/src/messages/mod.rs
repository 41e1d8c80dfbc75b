//! The messages and methods of `proto/`, as they compile. Nothing in them is checked.

/// Airlock's own.
#[expect(clippy::pedantic, missing_docs, reason = "generated code")]
pub mod airlock {
    include!("airlock.plugin.v1.rs");
}

/// Those of go-plugin's libraries.
#[expect(clippy::pedantic, missing_docs, reason = "generated code")]
pub mod goplugin {
    include!("plugin.rs");
}

/// Those of gRPC's health service.
#[expect(
    clippy::module_inception,
    clippy::pedantic,
    missing_docs,
    reason = "generated code"
)]
pub mod health {
    include!("grpc.health.v1.rs");
}
