//! What makes a directory a project of each runner, whatever is in it.

pub(crate) type Files<'a> = &'a [(&'a str, &'a str)];

pub(crate) const PYTHON: Files<'_> = &[
    (
        "pytest.ini",
        "[pytest]\npythonpath = .\naddopts = -p no:cacheprovider\n",
    ),
    (".gitignore", "__pycache__/\nlcov.info\n"),
];
pub(crate) const NODE: Files<'_> = &[("package.json", "{}")];
pub(crate) const NPM: Files<'_> = &[("package.json", "{\"scripts\": {\"test\": \"node --test\"}}")];
pub(crate) const GO: Files<'_> = &[("go.mod", "module example.org/demo\n\ngo 1.18\n")];
pub(crate) const RUST: Files<'_> = &[
    (
        "Cargo.toml",
        "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    ),
    (
        "Cargo.lock",
        "version = 3\n\n[[package]]\nname = \"demo\"\nversion = \"0.1.0\"\n",
    ),
    (".gitignore", "target/\n"),
];

/// A project of that kind, with its own files.
pub(crate) fn with<'a>(
    kind: &[(&'a str, &'a str)],
    own: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    [kind, own].concat()
}
