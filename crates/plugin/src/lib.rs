//! Plugins: third-party code that joins the road without being trusted.
//!
//! A [`Manifest`] says what a plugin is and asks for; a [`Host`] runs it, confined to that; the
//! manager keeps track. What a plugin says is data: nothing of it steers Airlock.
//!
//! Guarantee: a plugin's code runs only as the bytes that were approved, in a sandbox made from its
//! manifest. Non-guarantee: nothing here decides; whether a call may happen is the road's business.

mod arguments;
#[cfg(target_os = "linux")]
pub mod boxed;
mod built_in;
mod configuration;
mod grants;
mod held;
mod host;
mod lifecycle;
mod manager;
mod manifest;
mod pins;
mod tool;

pub use airlock_core::Tier;
pub use airlock_yaml::{DefinitionError, Mismatch};
pub use arguments::{Misfit, check_arguments};
pub use built_in::built_in;
pub use configuration::{
    check_configuration, plain_settings, secrets_of, shown_configuration, texts_of,
};
pub use grants::{Grants, Place};
pub use held::HeldDirectory;
pub use host::{CallError, Callback, CallbackError, Host, Instance, Reach, Start, StartError};
pub use lifecycle::{Lifecycle, Refused, State};
pub use manager::{
    Approval, Approved, ApprovedFile, Clock, Contents, Decided, DependencyError, FilesError, Hosts,
    LaunchError, Listed, ManageError, Manager, Monotonic, Origin, Reason, Registrar, Rejected,
    Review, Settings, Source, THIRD_PARTY, Watch, manifest_text, remove_plugin_directory,
};
pub use manifest::{
    API_VERSION, Execution, Kind, LifecycleSettings, MANIFEST, Manifest, Protocol, SandboxAsk,
    WasmLimits, is_tool_name,
};
pub use pins::{PinChange, Pins};
pub use tool::{Sink, ToolCall, ToolDescription};
