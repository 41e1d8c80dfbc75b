//! Rows to the seccomp JSON of the OCI runtime specification, which container engines read.
//!
//! The container must also run with `no-new-privileges`: only then does the runtime install the
//! filter last, after the calls it needs itself. A foreign ABI is killed because only one
//! architecture is listed. `strict` has no exec, so no container can start under it: it is
//! generated for comparison, never for an engine.

use super::{ABSENT, Architecture, Check, Profile, Row, Syscall};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// The profile as the `linux.seccomp` object of a container's configuration.
pub fn oci(profile: Profile, architecture: Architecture) -> Value {
    let exists = |row: &&Row| {
        Syscall::find(row.syscall).is_some_and(|call| call.number(architecture).is_some())
    };
    let mut free = BTreeSet::new();
    let mut checked: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in profile.rows().filter(exists) {
        if row.when.is_empty() {
            free.insert(row.syscall);
        } else {
            checked.entry(row.syscall).or_default().push(row);
        }
    }
    checked.retain(|name, _| !free.contains(name));
    let mut syscalls = vec![
        json!({ "names": ABSENT, "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }),
        json!({ "names": free, "action": "SCMP_ACT_ALLOW" }),
    ];
    syscalls.extend(checked.values().flatten().map(|row| {
        let arguments: Vec<Value> = row.when.iter().map(argument).collect();
        json!({ "names": [row.syscall], "action": "SCMP_ACT_ALLOW", "args": arguments })
    }));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "architectures": [name(architecture)],
        "syscalls": syscalls,
    })
}

/// Of a masked comparison `value` is the mask and `valueTwo` what must be left.
fn argument(check: &Check) -> Value {
    json!({
        "index": check.argument,
        "value": check.mask,
        "valueTwo": check.value,
        "op": "SCMP_CMP_MASKED_EQ",
    })
}

const fn name(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "SCMP_ARCH_X86_64",
        Architecture::Aarch64 => "SCMP_ARCH_AARCH64",
    }
}
