//! The table of targets. A new one is a module with a `TARGET` and a line in [`TARGETS`].

mod audit_export;
mod capability_pattern;
mod checkpoint;
mod definitions;
mod kernel_messages;
mod manifest;
mod mcp_server;
mod path_glob;
mod plugin_handshake;
mod policy_yaml;
mod record_decoding;
mod request;
mod sanitise;
mod token;
mod units;
mod wasm_frames;
mod wire_frames;
mod workspace_path;

/// One parser under test.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name on the command line and in artifacts.
    pub name: &'static str,
    /// Feeds bytes to the parser and panics when an invariant breaks.
    pub run: fn(&[u8]),
    /// Inputs to start from: well-formed ones, and hostile ones worth keeping.
    pub seeds: &'static [&'static [u8]],
    /// Words of the format, inserted as they are.
    pub dictionary: &'static [&'static str],
    /// Mutations tried with every test run: about a second's worth, unoptimised.
    pub iterations: u64,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    audit_export::TARGET,
    capability_pattern::TARGET,
    checkpoint::TARGET,
    definitions::TARGET,
    kernel_messages::TARGET,
    manifest::TARGET,
    mcp_server::TARGET,
    path_glob::TARGET,
    plugin_handshake::TARGET,
    policy_yaml::TARGET,
    record_decoding::TARGET,
    sanitise::TARGET,
    token::TARGET,
    units::TARGET,
    wasm_frames::TARGET,
    wire_frames::TARGET,
    workspace_path::TARGET,
];

/// The target called `name`.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The input as text: what a parser of `&str` would be given. Bytes that are not UTF-8 become
/// replacement characters, so that a mutation there still tests something.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_name_of_its_own_seeds_and_a_budget() {
        for (at, target) in TARGETS.iter().enumerate() {
            assert!(!target.seeds.is_empty(), "{}", target.name);
            assert!(target.iterations > 0, "{}", target.name);
            let first = TARGETS.iter().position(|other| other.name == target.name);
            assert_eq!(first, Some(at), "{}", target.name);
        }
        assert!(find("no such target").is_none());
    }
}
