//! The sandbox templates: the most a sandbox of each kind can get.

use crate::plan::Limits;
use crate::seccomp::Profile;
use airlock_core::{ByteSize, Span};

/// Whether a template has a network at all. Which hosts is for the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Nothing.
    None,
    /// The proxy alone.
    Restricted,
}

/// A built-in template. A plan starts from one and can only be narrowed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Its name in policies.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether it has a network.
    pub network: Reach,
    /// The most of everything.
    pub limits: Limits,
    /// The widest seccomp profile.
    pub profile: Profile,
}

const MIB: u64 = 1 << 20;

const fn limits(mebibytes: u64, cpus: u32, pids: u32, millis: u64, file: u64) -> Limits {
    Limits {
        memory: ByteSize::from_bytes(mebibytes * MIB),
        cpus,
        pids,
        duration: Span::from_millis(millis),
        // What the caller keeps of it is bounded by the execution contract; this bounds what
        // reaches a file or pipe of the person's own.
        stdout: ByteSize::from_bytes(64 * MIB),
        stderr: ByteSize::from_bytes(64 * MIB),
        file_size: ByteSize::from_bytes(file * MIB),
    }
}

/// Every template. `strict` opens no files, so its file size is the least there is; linkers and
/// databases of tests write files of gibibytes.
pub static TEMPLATES: &[Template] = &[
    Template {
        name: "ai-provider",
        purpose: "adapters of model providers",
        network: Reach::Restricted,
        limits: limits(256, 500, 10, 120_000, 1),
        profile: Profile::Strict,
    },
    Template {
        name: "code-executor",
        purpose: "running code, builds and unit tests",
        network: Reach::None,
        limits: limits(1_024, 1_000, 100, 300_000, 4_096),
        profile: Profile::Standard,
    },
    Template {
        name: "policy-sandbox",
        purpose: "policy scripts and Wasm, each call",
        network: Reach::None,
        limits: limits(128, 250, 5, 100, 1),
        profile: Profile::Strict,
    },
    Template {
        name: "integration-test",
        purpose: "integration tests and plugins that are not our binary; needs a rule of its own",
        network: Reach::Restricted,
        limits: limits(1_024, 1_000, 100, 300_000, 4_096),
        profile: Profile::StandardNet,
    },
];

impl Template {
    /// The template of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_keeps_its_own_ranges_and_has_a_network_only_where_it_can_use_one() {
        for template in TEMPLATES {
            assert_eq!(template.limits.problems(), [], "{}", template.name);
            let internet = template.profile == Profile::StandardNet;
            assert!(
                !internet || template.network == Reach::Restricted,
                "{}",
                template.name
            );
        }
        assert_eq!(
            Template::find("code-executor").unwrap().profile,
            Profile::Standard
        );
        assert_eq!(Template::find("none"), None);
    }
}
