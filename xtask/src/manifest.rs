//! As much of TOML as the project's own manifests use: sections, keys, values, lines.
//!
//! Not a parser for foreign files: no multi-line strings, no escapes. A value that spans lines
//! (an array) is joined into one.

/// One `key = value`, with the section it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// One dependency of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Part of the shipped crate, rather than of its tests or build script.
    pub(crate) shipped: bool,
    /// Taken from `[workspace.dependencies]`.
    pub(crate) inherited: bool,
    pub(crate) line: usize,
}

/// The entries of `text`, in order.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut section = String::new();
    let mut open = 0_i32;
    for (number, line) in text.lines().enumerate() {
        let line = without_comment(line).trim();
        if open > 0 {
            if let Some(entry) = found.last_mut() {
                entry.value.push(' ');
                entry.value.push_str(line);
            }
            open += nesting(line);
        } else if let Some(name) = line.strip_prefix('[') {
            name.trim_matches(['[', ']']).clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once('=') {
            open = nesting(value);
            found.push(Entry {
                section: section.clone(),
                key: key.trim().trim_matches('"').to_owned(),
                value: value.trim().to_owned(),
                line: number + 1,
            });
        }
    }
    found
}

/// The value of `key` in `section`, without its quotes.
pub(crate) fn value<'a>(entries: &'a [Entry], section: &str, key: &str) -> Option<&'a str> {
    entries
        .iter()
        .find(|entry| entry.section == section && entry.key == key)
        .map(|entry| entry.value.trim_matches('"'))
}

/// The quoted words of a value such as an array.
pub(crate) fn quoted(value: &str) -> Vec<&str> {
    value.split('"').skip(1).step_by(2).collect()
}

/// The dependencies of a package's manifest: normal, development and build ones.
pub(crate) fn dependencies(entries: &[Entry]) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    for entry in entries {
        let Some((kind, table)) = dependency_section(&entry.section) else {
            continue;
        };
        let (name, field) = match (table, entry.key.split_once('.')) {
            (Some(name), _) => (name, Some(entry.key.as_str())),
            (None, Some((name, field))) => (name, Some(field)),
            (None, None) => (entry.key.as_str(), None),
        };
        let inherited = match field {
            Some(field) => field == "workspace" && entry.value == "true",
            None => entry.value.replace(' ', "").contains("workspace=true"),
        };
        let shipped = kind == "dependencies";
        match found
            .iter_mut()
            .find(|d| d.name == name && d.shipped == shipped)
        {
            Some(known) => known.inherited |= inherited,
            None => found.push(Dependency {
                name: name.to_owned(),
                shipped,
                inherited,
                line: entry.line,
            }),
        }
    }
    found
}

/// The kind of dependencies a section lists, and the one it is all about, if it is.
fn dependency_section(section: &str) -> Option<(&str, Option<&str>)> {
    // `[target.'cfg(unix)'.dependencies]`: what counts comes after the condition.
    let section = match section.strip_prefix("target.") {
        Some(rest) => rest.find("dependencies").and_then(|at| {
            let start = rest.get(..at)?.rfind('.')? + 1;
            rest.get(start..)
        })?,
        None => section,
    };
    let (kind, name) = match section.split_once('.') {
        Some((kind, name)) => (kind, Some(name)),
        None => (section, None),
    };
    matches!(
        kind,
        "dependencies" | "dev-dependencies" | "build-dependencies"
    )
    .then_some((kind, name))
}

fn without_comment(line: &str) -> &str {
    let mut inside = false;
    let comment = line.char_indices().find(|(_, c)| {
        inside ^= *c == '"';
        *c == '#' && !inside
    });
    comment.and_then(|(at, _)| line.get(..at)).unwrap_or(line)
}

/// Brackets opened less those closed, outside of quotes.
fn nesting(text: &str) -> i32 {
    let mut inside = false;
    text.chars().fold(0, |depth, c| {
        inside ^= c == '"';
        match c {
            '[' | '{' if !inside => depth + 1,
            ']' | '}' if !inside => depth - 1,
            _ => depth,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
[package]
name = "x" # why
license.workspace = true

[dependencies]
serde.workspace = true
clap = { workspace = true, features = ["env"] }
loose = "1"

[dependencies.table]
workspace = true

[target.'cfg(unix)'.dev-dependencies]
rustix = "1"

[features]
list = [
    "a#1",
    "b",
]
"#;

    #[test]
    fn values_are_read_with_their_section_and_line() {
        let entries = entries(MANIFEST);
        assert_eq!(value(&entries, "package", "name"), Some("x"));
        assert_eq!(
            value(&entries, "package", "license.workspace"),
            Some("true")
        );
        assert_eq!(value(&entries, "package", "version"), None);
        let list = value(&entries, "features", "list").unwrap();
        assert_eq!(quoted(list), ["a#1", "b"]);
        assert_eq!(entries.first().unwrap().line, 3);
    }

    #[test]
    fn every_form_of_a_dependency_is_seen() {
        let found: Vec<_> = dependencies(&entries(MANIFEST))
            .into_iter()
            .map(|d| (d.name, d.shipped, d.inherited))
            .collect();
        let want = [
            ("serde", true, true),
            ("clap", true, true),
            ("loose", true, false),
            ("table", true, true),
            ("rustix", false, false),
        ];
        assert_eq!(found, want.map(|(name, s, i)| (name.to_owned(), s, i)));
    }
}
