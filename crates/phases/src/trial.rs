//! Changes to source that tell a test that looks at something from one that does not.
//!
//! The coarse ones come first: every function in question does nothing and returns the least there
//! is, or something nobody asked for, or does what it did before the session. A test that asserts
//! anything of what those functions do notices one of them, whichever branch it is about. The fine
//! ones change a line each.
//!
//! Guarantee: which ones there are, and in which order, is decided by the source alone.
//!
//! Invariant: a test is told from its neighbours by name; what a run says of others does not count
//! for it.

use crate::functions::{Form, Function, functions, product_lines};
use crate::runs::{Framework, Observed, is_test};
use crate::suite::Language;
use crate::values::{Flavour, statement};
use crate::variants::variants;
use crate::whence::{Place, raised};
use std::collections::BTreeSet;

/// A file of source, with the lines that tests are to be tried on.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Its path.
    pub path: String,
    /// Its language.
    pub language: Language,
    /// What it was before the session; none if it was not there.
    pub old: Option<String>,
    /// What it is.
    pub new: String,
    /// The lines in question.
    pub lines: BTreeSet<u32>,
}

/// One change, of one file or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What is changed, in words.
    pub what: String,
    /// The files with it.
    pub files: Vec<(String, String)>,
    /// Where a failure may begin and still be no sign that the test looked at anything: the product
    /// itself broke. Lines of files, the last one included.
    pub excused: Vec<(String, u32, u32)>,
    /// Whether it is only for when the one before it could not be run.
    pub instead: bool,
}

/// A text, and the names of the functions that are changed in it.
type Changed = (String, Vec<String>);

impl Ground {
    /// The functions that hold one of the lines.
    fn functions(&self) -> Vec<Function> {
        let mut found = functions(self.language, &self.new);
        found.retain(|function| {
            let (from, to) = function.lines;
            self.lines.range(from..=to.max(from)).next().is_some()
        });
        found
    }

    /// Its text with `flavour` in each of `functions` that allows it, and their names.
    fn with(&self, functions: &[Function], flavour: Flavour) -> Option<Changed> {
        let mut text = self.new.clone();
        let mut names = Vec::new();
        // From the end on, so that places further up stay where they are.
        for function in functions.iter().rev() {
            if let Some(first) = statement(self.language, function, flavour) {
                let put = placed(&function.form, &first);
                text.insert_str(function.entry, &put);
                names.push(function.name.clone());
            }
        }
        names.reverse();
        (!names.is_empty()).then_some((text, names))
    }

    /// Its text with those of `functions` as they were that were there before, and their names.
    fn as_before(&self, now: &[Function]) -> Option<Changed> {
        let old = self.old.as_deref()?;
        let before = functions(self.language, old);
        let mut text = self.new.clone();
        let mut names = Vec::new();
        for function in now.iter().rev() {
            let same = |other: &&Function| other.name == function.name;
            let mut earlier = before.iter().filter(same);
            // Of several by that name nobody knows which it was.
            let (Some(earlier), None) = (earlier.next(), earlier.next()) else {
                continue;
            };
            if now.iter().filter(same).count() > 1 || function.name.is_empty() {
                continue;
            }
            let (Some(was), Some(is)) = (
                old.get(earlier.range.clone()),
                self.new.get(function.range.clone()),
            ) else {
                continue;
            };
            // Within one that was replaced already there is nothing of its own.
            if was != is && text.get(function.range.clone()) == Some(is) {
                text.replace_range(function.range.clone(), was);
                names.push(function.name.clone());
            }
        }
        names.reverse();
        (!names.is_empty()).then_some((text, names))
    }
}

/// `first` as it stands in the text.
fn placed(form: &Form, first: &str) -> String {
    match form {
        Form::Block => format!(" {first}"),
        Form::Suite(indent) => format!("{indent}{first}\n"),
        Form::Inline => format!(" {first};"),
        // Whatever follows is the other branch.
        Form::Expression => {
            let value = first.trim_start_matches("return ").trim_end_matches(';');
            format!(" true ? {value} :")
        }
    }
}

/// Changes of all functions in question at once, the one that most tests notice first.
pub fn coarse(grounds: &[Ground]) -> Vec<Mutation> {
    let found: Vec<(&Ground, Vec<Function>)> = grounds
        .iter()
        .map(|ground| (ground, ground.functions()))
        .collect();
    let all = |what: &str, change: &dyn Fn(&Ground, &[Function]) -> Option<Changed>| {
        let mut files = Vec::new();
        let mut names = Vec::new();
        for (ground, functions) in &found {
            if let Some((text, own)) = change(ground, functions) {
                files.push((ground.path.clone(), text));
                names.extend(own);
            }
        }
        (!files.is_empty()).then(|| Mutation {
            what: format!("{} {what}", listed(&names)),
            files,
            excused: Vec::new(),
            instead: false,
        })
    };
    let flavoured = |what: &str, flavour: Flavour| {
        all(what, &|ground, functions| ground.with(functions, flavour))
    };
    let mut mutations: Vec<Mutation> = Vec::new();
    mutations.extend(flavoured("emptied", Flavour::Emptied));
    mutations.extend(flavoured("returning something else", Flavour::Other));
    mutations.extend(all("as before the session", &Ground::as_before));
    let defaults = flavoured("returning a default", Flavour::Default);
    let fell_back = defaults.is_some();
    mutations.extend(defaults);
    mutations.extend(
        flavoured("panicking", Flavour::Panics).map(|mutation| Mutation {
            instead: fell_back,
            ..mutation
        }),
    );
    mutations
}

/// The same ground, function by function.
pub fn apart(grounds: &[Ground]) -> Vec<Ground> {
    let mut found = Vec::new();
    for ground in grounds {
        for function in ground.functions() {
            let (from, to) = function.lines;
            found.push(Ground {
                lines: ground.lines.range(from..=to.max(from)).copied().collect(),
                ..ground.clone()
            });
        }
    }
    found
}

/// The first few of `names`.
fn listed(names: &[String]) -> String {
    const FEW: usize = 5;
    let shown = names.iter().take(FEW).map(|name| match name.as_str() {
        "" => "a function without a name".to_owned(),
        name => format!("`{name}`"),
    });
    let shown: Vec<String> = shown.collect();
    match names.len().saturating_sub(FEW) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Up to `most` changes of single lines, spread over all files and lines, and no two of a line
/// before each line that can be changed has had one.
pub fn fine(grounds: &[Ground], most: usize) -> Vec<Mutation> {
    let mut ranked: Vec<(usize, Mutation)> = Vec::new();
    for ground in grounds {
        let excused: Vec<(String, u32, u32)> = ground
            .functions()
            .iter()
            .map(|function| (ground.path.clone(), function.lines.0, function.lines.1))
            .collect();
        let product = product_lines(ground.language, &ground.new);
        let whole: Vec<&str> = ground.new.split_inclusive('\n').collect();
        for (line, text) in (1_u32..).zip(&whole) {
            if !ground.lines.contains(&line) || !product.contains(&line) {
                continue;
            }
            for (rank, (what, changed)) in variants(ground.language, text).into_iter().enumerate() {
                let at = line as usize;
                let before = whole.iter().take(at.saturating_sub(1)).copied();
                let after = whole.iter().skip(at).copied();
                let new: String = before.chain([changed.as_str()]).chain(after).collect();
                let mutation = Mutation {
                    what: format!("{what} in `{}` line {line}", ground.path),
                    files: vec![(ground.path.clone(), new)],
                    excused: excused.clone(),
                    instead: false,
                };
                ranked.push((rank, mutation));
            }
            if ranked.len() >= ENOUGH {
                break;
            }
        }
    }
    let mut chosen = Vec::new();
    for rank in 0.. {
        let of_rank = ranked.iter().filter(|(own, _)| *own == rank);
        let count = of_rank.clone().count();
        let room = most.saturating_sub(chosen.len());
        if count == 0 || room == 0 {
            break;
        }
        let stride = count.div_ceil(room).max(1);
        chosen.extend(
            of_rank
                .step_by(stride)
                .map(|(_, mutation)| mutation.clone()),
        );
    }
    chosen.truncate(most);
    chosen
}

/// As many changes are thought of before some are chosen: each is a whole file.
const ENOUGH: usize = 400;

/// A run with a mutation, as it is read.
#[derive(Debug, Clone, Copy)]
pub struct Mutated<'a> {
    /// What ran it.
    pub framework: Framework,
    /// What it printed, on both streams.
    pub output: &'a str,
    /// Whether it failed as a whole.
    pub failed: bool,
    /// The tests it told of.
    pub observed: &'a Observed,
}

impl Mutated<'_> {
    /// Whether the tests ran at all: what cannot be compiled or loaded shows nothing.
    pub fn took_effect(&self) -> bool {
        !self.observed.passed.is_empty() || !self.observed.failed.is_empty()
    }

    /// Whether the test called `name` noticed `mutation`, that passed in `before`.
    ///
    /// Of a test that the runner does not tell of by that name the run as a whole has to speak.
    pub fn noticed(&self, name: &str, before: &Observed, mutation: &Mutation) -> bool {
        let known = |tests: &BTreeSet<String>| tests.iter().any(|test| is_test(test, name));
        if !known(&before.passed) && !known(&before.failed) {
            return self.failed;
        }
        if known(&before.failed) || !known(&self.observed.failed) {
            return false;
        }
        let places = raised(self.framework, self.output, name);
        let excused = |place: &Option<Place>| {
            place.as_ref().is_some_and(|place| {
                let mut excused = mutation.excused.iter();
                excused.any(|(path, from, to)| {
                    place.is_of(path) && (*from..=*to).contains(&place.line)
                })
            })
        };
        places.is_empty() || !places.iter().all(excused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(path: &str, old: Option<&str>, new: &str) -> Ground {
        Ground {
            path: path.to_owned(),
            language: Language::of(path).unwrap(),
            old: old.map(str::to_owned),
            new: new.to_owned(),
            lines: (1..=100).collect(),
        }
    }

    fn told(mutations: &[Mutation]) -> Vec<(&str, &str)> {
        let all = mutations.iter();
        all.map(|one| (one.what.as_str(), one.files[0].1.as_str()))
            .collect()
    }

    #[test]
    fn functions_are_emptied_changed_and_put_back_all_at_once() {
        let python = ground(
            "app.py",
            Some("def add(a, b):\n    return a\n"),
            "def add(a, b):\n    return a + b\n\n\ndef one(): return 1\n",
        );
        assert_eq!(
            told(&coarse(&[python])),
            [
                (
                    "`add`, `one` emptied",
                    "def add(a, b):\n    return None\n    return a + b\n\n\ndef one(): return None; return 1\n"
                ),
                (
                    "`add`, `one` returning something else",
                    "def add(a, b):\n    return \"airlock\"\n    return a + b\n\n\ndef one(): return \"airlock\"; return 1\n"
                ),
                (
                    "`add` as before the session",
                    "def add(a, b):\n    return a\n\n\ndef one(): return 1\n"
                ),
            ]
        );
        let javascript = ground(
            "a.js",
            None,
            "exports.f = (a) => a * 2;\nfunction g() {\n  return 1;\n}\n",
        );
        assert_eq!(
            told(&coarse(&[javascript]))[0].1,
            "exports.f = (a) => true ? null : a * 2;\nfunction g() { return null;\n  return 1;\n}\n"
        );
        let rust = ground(
            "a.rs",
            None,
            "pub fn f() -> u8 {\n    1\n}\nfn p() -> Point {\n    P\n}\n",
        );
        let found = coarse(&[rust]);
        let what: Vec<(&str, bool)> = found
            .iter()
            .map(|one| (one.what.as_str(), one.instead))
            .collect();
        assert_eq!(
            what,
            [
                ("`f` emptied", false),
                ("`f` returning something else", false),
                ("`p` returning a default", false),
                ("`p` panicking", true),
            ]
        );
        // Only functions in question.
        let mut few = ground(
            "a.py",
            None,
            "def a():\n    return 1\n\n\ndef b():\n    return 2\n",
        );
        few.lines = [6].into();
        assert_eq!(coarse(&[few])[0].what, "`b` emptied");
    }

    #[test]
    fn lines_are_changed_one_by_one_and_never_those_of_tests() {
        let text = "fn f(a: u32) -> bool {\n    a + 1 == 2\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {\n        assert!(super::f(1) || true);\n    }\n}\n";
        let rust = ground("src/a.rs", None, text);
        let found = fine(std::slice::from_ref(&rust), 20);
        let what: Vec<&str> = found.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            what,
            [
                "`!=` for `==` in `src/a.rs` line 2",
                "`-` for `+` in `src/a.rs` line 2",
                "`2` for `1` in `src/a.rs` line 2",
            ]
        );
        assert_eq!(found[0].excused, [("src/a.rs".to_owned(), 1, 3)]);
        assert_eq!(fine(std::slice::from_ref(&rust), 1).len(), 1);
        let wide = ground("a.py", None, &"a + b\n".repeat(90));
        let few: Vec<String> = fine(std::slice::from_ref(&wide), 3)
            .into_iter()
            .map(|one| one.what)
            .collect();
        let lines = ["line 1", "line 31", "line 61"];
        assert!(
            few.iter()
                .zip(lines)
                .all(|(what, line)| what.ends_with(line)),
            "{few:?}"
        );
        assert_eq!(
            fine(std::slice::from_ref(&wide), 3),
            fine(&[wide], 3),
            "nobody's luck"
        );
    }

    #[test]
    fn a_failure_within_the_changed_source_is_no_look_at_it() {
        let observed = |passed: &[&str], failed: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Observed {
                passed: owned(passed),
                failed: owned(failed),
            }
        };
        let before = observed(&["tests/t.py::test_a", "tests/t.py::test_b"], &[]);
        let mutation = |excused: &[(&str, u32, u32)]| Mutation {
            what: String::new(),
            files: Vec::new(),
            excused: excused
                .iter()
                .map(|(path, from, to)| ((*path).to_owned(), *from, *to))
                .collect(),
            instead: false,
        };
        let output = "____ test_a ____\n\n    def test_a():\n>       assert f(1)\n\ntests/t.py:3: \n_ _ _\n\n    def f(a):\n>       return a - 'x'\nE       TypeError: no\n\napp.py:2: TypeError\n";
        let failed = observed(&["tests/t.py::test_b"], &["tests/t.py::test_a"]);
        let run = Mutated {
            framework: Framework::Pytest,
            output,
            failed: true,
            observed: &failed,
        };
        assert!(run.took_effect());
        assert!(!run.noticed("test_a", &before, &mutation(&[("app.py", 1, 3)])));
        assert!(run.noticed("test_a", &before, &mutation(&[("app.py", 5, 9)])));
        assert!(run.noticed("test_a", &before, &mutation(&[])));
        assert!(!run.noticed("test_b", &before, &mutation(&[])));
        // A name nobody told of: the run speaks.
        assert!(run.noticed("other", &before, &mutation(&[("app.py", 1, 3)])));
        let none = observed(&[], &[]);
        let broken = Mutated {
            observed: &none,
            ..run
        };
        assert!(!broken.took_effect());
    }
}
