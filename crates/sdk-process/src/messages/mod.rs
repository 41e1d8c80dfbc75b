//! The messages of `proto/`, as they compile. Nothing in them is checked.

/// Airlock's own.
#[expect(unreachable_pub, reason = "generated code")]
pub(crate) mod airlock {
    include!("airlock.plugin.v1.rs");
}

/// Those of go-plugin's libraries.
#[expect(clippy::pedantic, unreachable_pub, reason = "generated code")]
pub(crate) mod goplugin {
    include!("plugin.rs");
}

/// Those of gRPC's health service.
#[expect(clippy::pedantic, unreachable_pub, reason = "generated code")]
pub(crate) mod health {
    include!("grpc.health.v1.rs");
}
