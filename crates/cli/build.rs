//! How the program is linked.
//!
//! A program of this size that can be loaded anywhere has some eighty thousand places to be adjusted
//! when it is. Listed one by one they are nearly 2 MiB, which every start reads, and which a kernel that
//! stays keeps in memory; packed they are a small part of that. The C library understands packed ones
//! from 2.36 on, which is asked of the machine that builds: the program would not start with an older
//! one.
//!
//! What unwinds a stack after a panic becomes a part of the program, where the compiler that links it
//! has it as an archive: as a library of its own it is looked for, loaded and set up at every start.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

fn main() -> io::Result<()> {
    tell("rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| variable(name).is_some_and(|value| value == wanted);
    let here = variable("HOST").is_some() && variable("HOST") == variable("TARGET");
    let linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !here || !linux {
        return Ok(());
    }
    if library_version().is_some_and(|version| version >= (2, 36)) {
        tell("rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if let (Some(place), Some(unwinder)) = (variable("OUT_DIR"), unwinder()) {
        // Another compiler may keep it elsewhere.
        tell(&format!("rerun-if-changed={}", unwinder.display()));
        // Found before the library that has this name.
        let script = format!("INPUT({})\n", unwinder.display());
        fs::write(Path::new(&place).join("libgcc_s.so"), script)?;
        tell(&format!("rustc-link-search=native={place}"));
    }
    Ok(())
}

/// The unwinder as an archive.
#[expect(clippy::disallowed_methods, reason = "nothing of Airlock's runs yet")]
fn unwinder() -> Option<PathBuf> {
    let told = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let told = String::from_utf8(told.ok()?.stdout).ok()?;
    // A compiler that has none repeats the name.
    let path = Path::new(told.trim()).canonicalize().ok()?;
    // What the linker would read as more than a name is left out.
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    let text = path.to_str()?;
    (path.is_absolute() && text.chars().all(plain)).then_some(path)
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
