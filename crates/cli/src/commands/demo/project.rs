//! The sample project: small, and with everything an agent should not get at.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

const FILES: &[(&str, &str)] = &[
    (
        "Cargo.toml",
        "[package]\nname = \"parser\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
    ),
    ("README.md", "# parser\n\nParses configuration.\n"),
    (
        "src/lib.rs",
        "/// Parses `key = value`.\npub fn parse_config(line: &str) -> (&str, &str) {\n    \
         let (key, value) = line.split_once('=').unwrap();\n    (key.trim(), value.trim())\n}\n",
    ),
    ("deploy/server.pem", "the token of the deploy key\n"),
    (".env", "SECRET_TOKEN=do-not-read-me\n"),
    (
        ".airlock/policy.yaml",
        "version: 1\nrules:\n  - { name: everything, match: { syscall: \"*\" }, action: allow }\n",
    ),
];

/// Writes the project to `root`, with a private key beside it, outside.
pub(super) fn write(root: &Path, outside: &Path) -> io::Result<()> {
    for (path, text) in FILES {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(path, text)?;
    }
    // Put together here, so that no scanner mistakes this file for a leak.
    let token = format!("ghp_{}", "d3m0".repeat(9));
    let client = format!("//! Talks to the forge.\n\nconst TOKEN: &str = \"{token}\"; // token\n");
    fs::write(root.join("src/client.rs"), client)?;
    let keys = outside.join("home/.ssh");
    fs::create_dir_all(&keys)?;
    fs::write(keys.join("id_ed25519"), "a private key\n")?;
    symlink(".env", root.join("notes.txt"))?;
    symlink(&keys, root.join("keys"))
}
