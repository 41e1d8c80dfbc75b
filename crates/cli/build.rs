//! How the program is linked.
//!
//! A program of this size that can be loaded anywhere has some eighty thousand places to be adjusted
//! when it is. Listed one by one they are nearly 2 MiB, which every start reads, and which a kernel that
//! stays keeps in memory; packed they are a small part of that. The C library understands packed ones
//! from 2.36 on, which is asked of the machine that builds: the program would not start with an older
//! one.

use std::process::Command;

fn main() {
    tell("rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| variable(name).is_some_and(|value| value == wanted);
    let here = variable("HOST").is_some() && variable("HOST") == variable("TARGET");
    let linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if here && linux && library_version().is_some_and(|version| version >= (2, 36)) {
        tell("rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of the C library, such as 2.36, if there is one that says.
#[expect(clippy::disallowed_methods, reason = "nothing of Airlock's runs yet")]
fn library_version() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let told = String::from_utf8(told.ok()?.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is how cargo tells a build script"
)]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn tell(what: &str) {
    println!("cargo:{what}");
}
