//! Java: a JDK, Maven and its repository.
//!
//! Maven reads a repository it cannot write as long as nothing is missing in it. It looks for it in
//! the home of the user database, so that a link there leads to the real one: `settings.xml`, which
//! has passwords, stays outside, and an own one says that there is no network. Gradle insists on
//! writing its home and is not supported.

use super::Content;
use super::gate::{Gate, above, is_system, names_in, real};
use crate::looked;
use crate::plan::HostPath;
use std::ffi::OsStr;

/// Of a JDK; `conf/management` may hold passwords.
const JDK: [&str; 12] = [
    "bin",
    "lib",
    "jre",
    "include",
    "jmods",
    "release",
    "conf/security",
    "conf/net.properties",
    "conf/logging.properties",
    "conf/jaxp.properties",
    "conf/sound.properties",
    "conf/sdp",
];
/// Of Maven; `conf/settings.xml` may hold passwords.
const MAVEN: [&str; 4] = ["bin", "boot", "lib", "conf/logging"];
const OFFLINE: &str = "<settings>\n  <offline>true</offline>\n</settings>\n";

pub(super) fn detect(gate: &mut Gate<'_>) {
    let jdk = jdk(gate);
    let maven = maven(gate);
    if !jdk && !maven {
        return;
    }
    repository(gate);
    if gate.offline() {
        gate.put(".m2/settings.xml", Content::File(OFFLINE.to_owned()));
    }
    if gate.program("gradle").is_some() {
        gate.note("Gradle writes to its home and does not run inside");
    }
}

fn jdk(gate: &mut Gate<'_>) -> bool {
    let candidates = [
        gate.variable("JAVA_HOME").map(|home| (home, "JAVA_HOME")),
        super::managers::chosen(gate, &["java"]).map(|home| (home, "version manager")),
        candidate(gate, "java").map(|home| (home, "SDKMAN")),
        gate.program("java")
            .and_then(|program| above(&program, 2))
            .map(|home| (home, "PATH")),
    ];
    for (home, how) in candidates.into_iter().flatten() {
        if !is_jdk(&home) {
            continue;
        }
        gate.found("JDK", &home, how);
        if !is_system(&home) {
            let target = real(&home).unwrap_or_else(|| home.clone());
            gate.pieces(&home, &JDK);
            gate.pieces(&target, &JDK);
            gate.search(&home.join(OsStr::new("bin")));
        }
        // The launcher scripts of the system find their own.
        if how != "PATH" {
            gate.set("JAVA_HOME", home.as_os_str());
        }
        return true;
    }
    false
}

fn is_jdk(home: &HostPath) -> bool {
    let has = |name: &str| looked::exists(&home.as_path().join(name));
    has("bin/java") && (has("lib/modules") || has("release") || has("jre/lib/rt.jar"))
}

/// What SDKMAN has chosen.
fn candidate(gate: &mut Gate<'_>, tool: &str) -> Option<HostPath> {
    let (root, _) = gate.directory("SDKMAN_DIR", &[".sdkman"])?;
    let current = root.join(OsStr::new("candidates")).join(OsStr::new(tool));
    real(&current.join(OsStr::new("current"))).filter(|real| current.holds(real))
}

fn maven(gate: &mut Gate<'_>) -> bool {
    let wrapped = wrapped(gate);
    let candidates = [
        super::managers::chosen(gate, &["maven"]).map(|home| (home, "version manager")),
        candidate(gate, "maven").map(|home| (home, "SDKMAN")),
        gate.program("mvn")
            .and_then(|program| above(&program, 2))
            .map(|home| (home, "PATH")),
    ];
    for (home, how) in candidates.into_iter().flatten() {
        if is_maven(&home) {
            gate.found("Maven", &home, how);
            if !is_system(&home) && gate.pieces(&home, &MAVEN) {
                gate.search(&home.join(OsStr::new("bin")));
            }
            return true;
        }
    }
    wrapped
}

fn is_maven(home: &HostPath) -> bool {
    ["bin/mvn", "boot"]
        .iter()
        .all(|name| looked::exists(&home.as_path().join(name)))
}

/// What `mvnw` has downloaded: `wrapper/dists/NAME/HASH`, with the distribution in it or beneath.
fn wrapped(gate: &mut Gate<'_>) -> bool {
    let Some(wrapper) = gate.at_home(".m2/wrapper") else {
        return false;
    };
    let dists = wrapper.join(OsStr::new("dists"));
    let mut any = false;
    for name in names_in(&dists) {
        let versions = dists.join(&name);
        for hash in names_in(&versions) {
            let version = versions.join(&hash);
            let inner = names_in(&version);
            let inner = inner.iter().map(|name| version.join(name));
            for home in std::iter::once(version.clone()).chain(inner) {
                if is_maven(&home) && gate.pieces(&home, &MAVEN) {
                    gate.found("Maven", &home, "mvnw");
                    any = true;
                }
            }
        }
    }
    if any {
        gate.put(".m2/wrapper", Content::Link(wrapper));
    }
    any
}

fn repository(gate: &mut Gate<'_>) {
    let Some(repository) = gate.at_home(".m2/repository") else {
        return;
    };
    if gate.grant(&repository) {
        gate.found("Maven's repository", &repository, "usual place");
        gate.put(".m2/repository", Content::Link(repository));
    }
}
