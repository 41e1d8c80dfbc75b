//! Paths of requests: an inside path stays inside, and normal forms are final.

use super::{Target, text};
use airlock_core::{RequestPath, WorkspacePath, limits};

pub(super) const TARGET: Target = Target {
    name: "workspace_path",
    run,
    seeds: &[
        b".",
        b"src/main.rs",
        b"./src//main.rs",
        b"a/../../b",
        b"..",
        b"/etc/shadow",
        b"/srv/project/../secret",
        b"/srv/project",
        b"/srv/projector",
        b"a\\..\\b",
        b"a/\0/b",
        b"caf\xc3\xa9/\xe2\x80\xae/x",
        b"..../...",
        b"a/b/c/d/e/f/../../../../../..",
    ],
    dictionary: &[
        "..",
        ".",
        "/",
        "//",
        "/../",
        "/./",
        "/srv/project",
        "project",
        "\\",
        "\u{2215}",
    ],
    iterations: 30_000,
};

const ROOTS: &[&str] = &["/srv/project", "/srv/project/", "/", "/srv/./x/../project"];

fn run(input: &[u8]) {
    let text = text(input);
    if let Ok(path) = WorkspacePath::new(&text) {
        normal(&path);
        assert!(
            !text.starts_with('/'),
            "an absolute path was taken: {text:?}"
        );
    }
    for root in ROOTS {
        if let Ok(path) = RequestPath::parse(&text, root) {
            resolved(&text, root, &path);
        }
    }
}

fn normal(path: &WorkspacePath) {
    let text = path.as_str();
    assert!(
        !text.is_empty() && text.len() <= limits::PATH_BYTES,
        "{text:?}"
    );
    assert!(
        !text.contains('\0') && !text.starts_with('/') && !text.ends_with('/'),
        "{text:?}"
    );
    assert!(
        path.components()
            .all(|part| !part.is_empty() && part != "." && part != ".."),
        "{text:?} is not normal"
    );
    assert_eq!(
        path.is_root(),
        path.components().next().is_none(),
        "{text:?}"
    );
    assert_eq!(
        WorkspacePath::new(text).as_ref(),
        Ok(path),
        "{text:?} is not final"
    );
}

/// The side a path is on agrees with resolving it by hand, and its absolute form reads back.
fn resolved(text: &str, root: &str, path: &RequestPath) {
    let want = resolve(&if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("{root}/{text}")
    });
    let root_parts = resolve(root);
    assert_eq!(
        path.inside().is_some(),
        want.starts_with(&root_parts),
        "{text:?} beneath {root} is on the wrong side"
    );
    if let Some(inside) = path.inside() {
        normal(inside);
    }
    let absolute = path.absolute(root);
    assert_eq!(
        resolve(&absolute),
        want,
        "{text:?} beneath {root} became {absolute:?}"
    );
    // A long relative path can exceed the bound once its root is in front.
    if absolute.len() <= limits::PATH_BYTES {
        assert_eq!(
            RequestPath::parse(&absolute, root).as_ref(),
            Ok(path),
            "{absolute:?}"
        );
    }
}

/// The components of an absolute path after `.` and `..`, written apart from the code under test.
fn resolve(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for part in path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
    {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part.to_owned());
        }
    }
    parts
}
