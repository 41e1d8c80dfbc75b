//! What the definitions in `proto/` compile to.
//!
//! Generated at build time. Messages are as a peer sent them: nothing in them is checked.

/// Airlock's own services.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated code"
)]
#[expect(missing_docs, reason = "generated from comments that are in proto/")]
pub mod airlock {
    tonic::include_proto!("airlock.plugin.v1");
}

/// The services of go-plugin's libraries.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated code"
)]
#[expect(missing_docs, reason = "generated from comments that are in proto/")]
pub mod goplugin {
    tonic::include_proto!("plugin");
}

/// gRPC's health service.
#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated code"
)]
#[expect(missing_docs, reason = "generated from comments that are in proto/")]
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
