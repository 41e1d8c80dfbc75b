//! Sections about what runs and what it reaches: workspace, commands, network, scheduler,
//! extensions.

pub use super::template::Reach;
use crate::load::{
    address, any_line, capability, condition, destination, digest, extension_file, fields, host,
    many, name, named, number, one_or_many, plugin, port, program, regex, sandbox_tier, schema,
    some, span, syscall_pattern, template, user, word,
};
use airlock_core::{Span, Tier};
use std::collections::BTreeMap;
use std::sync::Arc;

fields! {
    /// What holds for everybody in this workspace.
    pub struct Workspace in "`workspace`" requires [] {
        /// Capabilities anybody may have here, at most. Absent: no limit of its own, since rules
        /// allow nothing by themselves. Empty: nobody may do anything.
        #[schemars(with = "schema::OneOrMany<schema::CapabilityPattern>")]
        allow: Vec<Arc<str>> = vec![Arc::from("*")] => one_or_many(capability);
        /// Least isolation under which foreign code runs here.
        #[schemars(with = "schema::OneOf<super::template::LeastTier>")]
        minimum_tier: Tier = Tier::Process => sandbox_tier;
    }
}

fields! {
    /// Who holds a capability tag. What a manifest lists is only a request.
    pub struct Tag in "a tag" requires [] {
        /// Plugins that hold it.
        #[schemars(with = "schema::OneOrMany<String>")]
        plugin: Vec<Arc<str>> = Vec::new() => one_or_many(plugin);
        /// Users that hold it.
        #[schemars(with = "schema::OneOrMany<String>")]
        user: Vec<Arc<str>> = Vec::new() => one_or_many(user);
    }
}

fields! {
    /// A program tools may run (check IV-01). Wrappers such as `env` or `sh -c` are looked
    /// through, or refused.
    pub struct Command in "a command" requires ["executable"] {
        /// Base name of the executable.
        executable: Arc<str> = Arc::from("") => program;
        /// First arguments that are allowed. Absent: any.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        subcommands: Option<Vec<Arc<str>>> = None => condition(any_line);
        /// Patterns of which every further argument must match one. Absent: any argument.
        #[schemars(with = "Option<Vec<schema::Regex>>")]
        allow_arguments: Option<Vec<Arc<str>>> = None => some(many(regex));
        /// Patterns no argument may match; they win over `allow_arguments`.
        #[schemars(with = "Vec<schema::Regex>")]
        block_arguments: Vec<Arc<str>> = Vec::new() => many(regex);
    }
}

fields! {
    /// What can be reached at all. A rule must still allow each connection.
    pub struct Network in "`network`" requires [] {
        /// What a sandbox reaches whose rule does not say.
        default: Reach = Reach::None => word::<Reach>;
        /// Named groups of hosts.
        #[schemars(with = "BTreeMap<Arc<str>, Vec<schema::HostOr<Destination>>>")]
        whitelist: BTreeMap<Arc<str>, Vec<Destination>> = BTreeMap::new()
            => named("`whitelist`", name, many(destination));
        /// Loopback, private or link-local addresses that may be connected to all the same.
        #[schemars(with = "Vec<schema::Address>")]
        allow_addresses: Vec<Arc<str>> = Vec::new() => many(address);
    }
}

fields! {
    /// A host that can be reached; a bare host name means port 443 of it.
    pub struct Destination in "a destination" requires ["host"] {
        /// Host: exact, or `*.example.org`.
        #[schemars(with = "schema::Host")]
        host: Arc<str> = Arc::from("") => host;
        /// Ports. Absent: 443.
        #[schemars(with = "schema::OneOrMany<schema::Port>")]
        port: Vec<u16> = vec![443] => one_or_many(port);
        /// Methods of plain HTTP requests. Absent: any.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        method: Option<Vec<Arc<str>>> = None => condition(crate::load::method);
        /// Path prefixes of plain HTTP requests. Absent: any.
        #[schemars(with = "Option<schema::OneOrMany<String>>")]
        path: Option<Vec<Arc<str>>> = None => condition(crate::load::url_path);
    }
}

fields! {
    /// How much runs at once.
    pub struct Scheduler in "`scheduler`" requires [] {
        /// Most tasks at once.
        max_running: u32 = 4 => number(1, 1_024);
        /// Most tasks of each template at once; one that is not listed has only the overall limit.
        #[schemars(with = "BTreeMap<Arc<str>, u32>")]
        per_template: BTreeMap<Arc<str>, u32> = usual_tasks()
            => named("`per_template`", template, number(1, 1_024));
        /// Most tasks of one tenant at once.
        per_tenant: u32 = 4 => number(1, 1_024);
        /// A task that waited this long rises by one priority, again and again, at most to 2.
        #[schemars(with = "schema::Time")]
        age_threshold: Span = Span::from_secs(30) => span;
    }
}

fn usual_tasks() -> BTreeMap<Arc<str>, u32> {
    [
        ("ai-provider", 2),
        ("code-executor", 2),
        ("policy-sandbox", 1),
    ]
    .into_iter()
    .map(|(name, most)| (Arc::from(name), most))
    .collect()
}

fields! {
    /// A script or Wasm module that takes part in decisions. It can only object or ask for review
    /// where rules allow, or allow what they leave open; if it fails, the answer is no.
    pub struct Extension in "an extension" requires ["name", "file"] {
        /// A name no other extension has.
        #[schemars(with = "schema::Name")]
        name: Arc<str> = Arc::from("") => name;
        /// File below `.airlock/`: `.ts`, `.js` or `.wasm`.
        file: Arc<str> = Arc::from("") => extension_file;
        /// SHA-256 digest the file must have. Absent: the digest pinned when the workspace was trusted.
        #[schemars(with = "Option<schema::Digest>")]
        digest: Option<Arc<str>> = None => some(digest);
        /// Syscalls it is asked about. Absent: every one.
        #[schemars(with = "Option<schema::OneOrMany<schema::SyscallPattern>>")]
        syscall: Option<Vec<Arc<str>>> = None => condition(syscall_pattern);
    }
}
