//! What Python imports, and what it loads by a name that it spells out.

use super::{Source, arguments, beneath, literals, parent, resolved};
use crate::blank::blanked;
use crate::suite::Language;
use regex::Regex;
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::LazyLock;

static TOKEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\w+|\n|[^\s\w]").ok());
/// Calls that load what they name, and where modules are looked for.
static LOADS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let calls = "__import__|import_module|find_spec|resolve_name|run_module|run_path\
                 |spec_from_file_location|SourceFileLoader|load_source|addsitedir";
    // As a method it is somebody else's.
    let exec = r"(?:^|[^.\w])exec(?:file)?";
    let search = r"\b(?:sys\s*\.\s*path|__path__)(?:\s*\.\s*\w+\s*\(|[^\n;]*)";
    Regex::new(&format!(r"(?:\b(?:{calls})|{exec})\s*\(|{search}")).ok()
});
/// Where projects keep modules that are not beside their manifest.
const USUAL: [&str; 2] = ["src", "lib"];

pub(super) fn taken(source: &Source<'_>) -> BTreeSet<String> {
    // Alone it ends a line as well.
    let text = source.text.replace("\r\n", "\n").replace('\r', "\n");
    let code = blanked(Language::Python, &text).replace("\\\n", "  ");
    let runner = runner_directories(source);
    let mut found = BTreeSet::new();
    for import in imports(&code) {
        found.extend(imported(source, &import, &runner));
    }
    let loads = LOADS.as_ref().into_iter();
    for load in loads.flat_map(|loads| loads.find_iter(&code)) {
        let inside = if load.as_str().ends_with('(') {
            arguments(&code, &text, load.end() - 1)
        } else {
            text.get(load.range()).unwrap_or_default()
        };
        let names = literals(inside);
        found.extend(names.iter().filter_map(|name| loaded(source, name)));
        found.extend(loaded(source, &names.join("/")));
    }
    found
}

/// `from module import names`, or `import module`.
struct Import {
    module: String,
    names: Vec<String>,
}

fn imports(code: &str) -> Vec<Import> {
    let tokens = TOKEN.as_ref().into_iter();
    let tokens = tokens.flat_map(|token| token.find_iter(code));
    let mut tokens = tokens.map(|token| token.as_str()).peekable();
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        if token == "from" {
            let mut module = String::new();
            while let Some(part) = tokens.next_if(|part| *part != "import" && names_module(part)) {
                module.push_str(part);
            }
            if tokens.next_if_eq(&"import").is_some() {
                let names = listed(&mut tokens);
                found.push(Import { module, names });
            }
        } else if token == "import" {
            let modules = listed(&mut tokens).into_iter();
            found.extend(modules.map(|module| Import {
                module,
                names: Vec::new(),
            }));
        }
    }
    found
}

fn names_module(token: &str) -> bool {
    token.starts_with(|first: char| first == '.' || first == '_' || first.is_alphanumeric())
}

/// The names of a list up to the end of its statement, each without what it is called from then on.
fn listed<'t>(tokens: &mut Peekable<impl Iterator<Item = &'t str>>) -> Vec<String> {
    let in_parentheses = tokens.next_if_eq(&"(").is_some();
    let ends = |token: &str| match token {
        ")" => true,
        "\n" | ";" => !in_parentheses,
        _ => false,
    };
    let mut names = vec![String::new()];
    let mut renamed = false;
    while let Some(token) = tokens.next_if(|token| !ends(token)) {
        if token == "," {
            names.push(String::new());
            renamed = false;
        } else if token == "as" {
            renamed = true;
        } else if !renamed
            && names_module(token)
            && let Some(name) = names.last_mut()
        {
            name.push_str(token);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The tests that an import takes from.
fn imported(source: &Source<'_>, import: &Import, runner: &BTreeSet<String>) -> Vec<String> {
    let paths = paths(source, &import.module);
    let usual = forms(&paths);
    // A name may be that of a module as well as of something in one: it is the former if there.
    let inner = |paths: &[String]| -> Vec<String> {
        let module = |name: &String| {
            let paths: Vec<String> = paths.iter().map(|path| beneath(path, name)).collect();
            there(source, &paths)
        };
        import.names.iter().filter_map(module).collect()
    };
    let mut found = inner(&paths);
    if found.is_empty() {
        // A directory may be a package without a file that says so.
        let which = source.which(&usual);
        found.extend(which.map(|test| there(source, &paths).unwrap_or(test)));
    } else {
        found.extend(source.there(&usual));
    }
    let is_absolute = !import.module.starts_with('.');
    if is_absolute && !usual.iter().any(|form| source.tree.has_file(form)) {
        for directory in runner {
            let beside = [beneath(directory, &import.module.replace('.', "/"))];
            found.extend(source.there(&forms(&beside)));
            found.extend(inner(&beside));
        }
    }
    found
}

/// The directories beside the source's own in which the runner lets modules be found while it runs
/// the changed tests: each test's, or that of the outermost package it is in.
fn runner_directories(source: &Source<'_>) -> BTreeSet<String> {
    let tests = source.tree.tests().iter();
    let tests = tests.filter(|test| Language::of(test) == Some(Language::Python));
    let outermost = |test: &String| {
        let mut directory = parent(test);
        while source.tree.has_file(&beneath(directory, "__init__.py")) && !directory.is_empty() {
            directory = parent(directory);
        }
        directory.to_owned()
    };
    tests.map(outermost).collect()
}

/// Where the module called `module` may be, without an ending.
fn paths(source: &Source<'_>, module: &str) -> Vec<String> {
    let name = module.trim_start_matches('.');
    let below = name.replace('.', "/");
    let dots = module.len() - name.len();
    if let Some(up) = dots.checked_sub(1) {
        let named = format!("{}{below}", "../".repeat(up));
        return resolved(source.directory, &named).into_iter().collect();
    }
    let bases = source.directories().into_iter().chain(USUAL);
    bases.filter_map(|base| resolved(base, &below)).collect()
}

fn forms(paths: &[String]) -> Vec<String> {
    let forms = |path: &String| {
        let module = (!path.is_empty()).then(|| format!("{path}.py"));
        module.into_iter().chain([beneath(path, "__init__.py")])
    };
    paths.iter().flat_map(forms).collect()
}

/// The first of `paths` that a module or a package of tests is at.
fn there(source: &Source<'_>, paths: &[String]) -> Option<String> {
    let tree = source.tree;
    let package =
        |path: &&String| tree.is_test(&beneath(path, "__init__.py")) && tree.has_directory(path);
    let module = source.there(&forms(paths));
    module.or_else(|| paths.iter().find(package).cloned())
}

/// The test that is there by `name`, which is a module or a path.
fn loaded(source: &Source<'_>, name: &str) -> Option<String> {
    if name.is_empty() {
        return None;
    }
    let bases = source.directories().into_iter();
    let files: Vec<String> = bases.filter_map(|base| resolved(base, name)).collect();
    let module = || {
        let is_module = name
            .chars()
            .all(|c| c == '.' || c == '_' || c.is_alphanumeric());
        is_module.then(|| paths(source, name))
    };
    source
        .there(&files)
        .or_else(|| there(source, &files))
        .or_else(|| there(source, &module()?))
}
