//! Changes to source that tell a test that looks at something from one that does not.
//!
//! The coarse ones come first: every function in question does nothing and returns the least there
//! is, or something nobody asked for, or does what it did before the session. A test that asserts
//! anything of what those functions do notices one of them, whichever branch it is about. The fine
//! ones change a line each.
//!
//! Guarantee: which ones there are, and in which order, is decided by the source alone.
//!
//! Invariant: a change is kept as what it puts where. The text of a file with it is made when it is
//! tried: there may be more changes than files would fit into memory.

use crate::functions::{Form, Function, functions, product_lines};
use crate::suite::Language;
use crate::values::{Flavour, statement};
use crate::variants::variants;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A file of source, with the lines that tests are to be tried on.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Its path.
    pub path: String,
    /// Its language.
    pub language: Language,
    /// What it was before the session; none if it was not there.
    pub old: Option<Arc<str>>,
    /// What it is.
    pub new: Arc<str>,
    /// The lines in question.
    pub lines: BTreeSet<u32>,
}

/// One change, of one file or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// What is changed, in words.
    pub what: String,
    /// What is put where.
    pub edits: Vec<Edit>,
    /// Where a failure may begin and still be no sign that the test looked at anything: the product
    /// itself broke. Lines of files, the last one included.
    pub excused: Vec<(String, u32, u32)>,
    /// Whether it is only for when the one before it could not be run.
    pub instead: bool,
}

/// One text in place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub path: String,
    /// What of its text is replaced, in bytes.
    pub at: Range<usize>,
    /// What is put there.
    pub put: String,
}

impl Mutation {
    /// Those of `grounds` that it changes, with it.
    pub fn files(&self, grounds: &[Ground]) -> Vec<(String, String)> {
        let mut edits: Vec<&Edit> = self.edits.iter().collect();
        // From the end on, so that places further up stay where they are.
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.at.start));
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for edit in edits {
            let own = grounds.iter().find(|ground| ground.path == edit.path);
            let Some(own) = own else { continue };
            let text = files
                .entry(&edit.path)
                .or_insert_with(|| own.new.as_ref().to_owned());
            if text.get(edit.at.clone()).is_some() {
                text.replace_range(edit.at.clone(), &edit.put);
            }
        }
        let files = files.into_iter();
        files.map(|(path, text)| (path.to_owned(), text)).collect()
    }
}

/// What is put where in one file, and the names of the functions that are changed by it.
type Changed = (Vec<Edit>, Vec<String>);

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

    fn edit(&self, at: Range<usize>, put: String) -> Edit {
        Edit {
            path: self.path.clone(),
            at,
            put,
        }
    }

    /// `flavour` in each of `functions` that allows it, and their names.
    fn with(&self, functions: &[Function], flavour: Flavour) -> Option<Changed> {
        let mut edits = Vec::new();
        let mut names = Vec::new();
        for function in functions {
            if let Some(first) = statement(self.language, function, flavour) {
                let put = placed(&function.form, &first);
                edits.push(self.edit(function.entry..function.entry, put));
                names.push(function.name.clone());
            }
        }
        (!names.is_empty()).then_some((edits, names))
    }

    /// Those of `functions` as they were that were there before, and their names.
    fn as_before(&self, now: &[Function]) -> Option<Changed> {
        let old = self.old.as_deref()?;
        let before = functions(self.language, old);
        let mut edits: Vec<Edit> = Vec::new();
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
            // Around one that was replaced already there is nothing of its own.
            let (from, to) = (function.range.start, function.range.end);
            let apart = |edit: &Edit| edit.at.start >= to || edit.at.end <= from;
            if was != is && edits.iter().all(apart) {
                edits.push(self.edit(function.range.clone(), was.to_owned()));
                names.push(function.name.clone());
            }
        }
        names.reverse();
        (!names.is_empty()).then_some((edits, names))
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
        let mut edits = Vec::new();
        let mut names = Vec::new();
        for (ground, functions) in &found {
            if let Some((put, own)) = change(ground, functions) {
                edits.extend(put);
                names.extend(own);
            }
        }
        (!edits.is_empty()).then(|| Mutation {
            what: format!("{} {what}", listed(&names)),
            edits,
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

/// A change of one line, before anybody asks what it is.
#[derive(Debug, Clone, Copy)]
struct Site {
    /// Which of the grounds.
    ground: usize,
    line: u32,
    /// Where the line begins.
    start: usize,
    /// Which of the changes that the line allows.
    rank: usize,
}

/// Up to `most` changes of single lines, spread over all files and lines, and no two of a line
/// before each line that can be changed has had one.
pub fn fine(grounds: &[Ground], most: usize) -> Vec<Mutation> {
    let chosen = spread(&sites(grounds), most);
    let mut found = Vec::new();
    for site in chosen {
        let Some(ground) = grounds.get(site.ground) else {
            continue;
        };
        let rest = ground.new.get(site.start..).unwrap_or_default();
        let line = rest.split_inclusive('\n').next().unwrap_or_default();
        let variant = variants(ground.language, line).into_iter().nth(site.rank);
        let Some((what, changed)) = variant else {
            continue;
        };
        let functions = ground.functions();
        let excused = functions
            .iter()
            .map(|function| (ground.path.clone(), function.lines.0, function.lines.1));
        found.push(Mutation {
            what: format!("{what} in `{}` line {}", ground.path, site.line),
            edits: vec![ground.edit(site.start..site.start + line.len(), changed)],
            excused: excused.collect(),
            instead: false,
        });
    }
    found
}

/// As many changes are thought of before some are chosen.
const ENOUGH: usize = 20_000;

/// Every change of a line in question, as far as there are not too many.
fn sites(grounds: &[Ground]) -> Vec<Site> {
    let mut found: Vec<Site> = Vec::new();
    'all: for (number, ground) in grounds.iter().enumerate() {
        let product = product_lines(ground.language, &ground.new);
        let mut start = 0;
        for (line, text) in (1_u32..).zip(ground.new.split_inclusive('\n')) {
            if ground.lines.contains(&line) && product.contains(&line) {
                let count = variants(ground.language, text).len();
                found.extend((0..count).map(|rank| Site {
                    ground: number,
                    line,
                    start,
                    rank,
                }));
            }
            if found.len() >= ENOUGH {
                break 'all;
            }
            start += text.len();
        }
    }
    found
}

/// Up to `most` of `sites`: first changes first, evenly.
fn spread(sites: &[Site], most: usize) -> Vec<Site> {
    let mut chosen = Vec::new();
    for rank in 0.. {
        let of_rank = sites.iter().filter(|site| site.rank == rank);
        let count = of_rank.clone().count();
        let room = most.saturating_sub(chosen.len());
        if count == 0 || room == 0 {
            break;
        }
        let stride = count.div_ceil(room).max(1);
        chosen.extend(of_rank.step_by(stride).copied());
    }
    chosen.truncate(most);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(path: &str, old: Option<&str>, new: &str) -> Ground {
        Ground {
            path: path.to_owned(),
            language: Language::of(path).unwrap(),
            old: old.map(Arc::from),
            new: new.into(),
            lines: (1..=100).collect(),
        }
    }

    /// What is changed in the one file of `ground`, and its text with that.
    fn told(ground: Ground) -> Vec<(String, String)> {
        let grounds = [ground];
        let all = coarse(&grounds).into_iter();
        all.map(|one| (one.what.clone(), one.files(&grounds).remove(0).1))
            .collect()
    }

    fn pairs(told: &[(String, String)]) -> Vec<(&str, &str)> {
        let all = told.iter();
        all.map(|(what, text)| (what.as_str(), text.as_str()))
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
            pairs(&told(python)),
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
            told(javascript)[0].1,
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
    fn a_change_is_held_as_what_it_puts_where_and_no_more() {
        let text = format!("{}\n", "x = a + b\n".repeat(6_000));
        let grounds: Vec<Ground> = (0..4)
            .map(|number| {
                let mut one = ground(&format!("a{number}.py"), Some(&text), &text);
                one.lines = (1..=6_000).collect();
                one
            })
            .collect();
        let held = |mutations: &[Mutation]| -> usize {
            let edits = mutations.iter().flat_map(|one| &one.edits);
            edits.map(|edit| edit.put.len()).sum()
        };
        let found = fine(&grounds, 8);
        assert_eq!(found.len(), 8);
        assert!(held(&found) < 8 * 40, "{}", held(&found));
        // What is thought of before some are chosen has no text at all, and an end.
        let thought_of = sites(&grounds);
        assert!(thought_of.len() < ENOUGH + 4, "{}", thought_of.len());
        assert!(thought_of.len() * size_of::<Site>() < 1024 * 1024);
        let changed = found[7].files(&grounds);
        assert_eq!(changed.len(), 1);
        assert_eq!(changed[0].1.len(), text.len());
        let differing = changed[0].1.lines().zip(text.lines());
        assert_eq!(differing.filter(|(a, b)| a != b).count(), 1);

        let many: Vec<String> = (0..2_000)
            .map(|number| format!("def f{number}(a):\n    return a\n"))
            .collect();
        let many = many.concat();
        let mut whole = ground("m.py", Some(&many.replace("return a", "return b")), &many);
        whole.lines = (1..=4_000).collect();
        let grounds = [whole];
        let single = apart(&grounds);
        assert!(single.len() > 100, "{}", single.len());
        assert!(
            single
                .iter()
                .all(|one| Arc::ptr_eq(&one.new, &grounds[0].new))
        );
        assert!(held(&coarse(&grounds)) < 4 * many.len());
        assert!(held(&coarse(&single[..1])) < 200);
    }

    #[test]
    fn changes_of_every_file_are_spread_over_all_of_them() {
        let grounds: Vec<Ground> = ["a.py", "b.py", "c.py", "d.py"]
            .map(|path| ground(path, None, &"a + b\n".repeat(90)))
            .into();
        let found = fine(&grounds, 4);
        let paths: Vec<&str> = found.iter().map(|one| &*one.edits[0].path).collect();
        assert_eq!(paths, ["a.py", "b.py", "c.py", "d.py"]);
    }

    #[test]
    fn nested_functions_are_put_back_once() {
        let old = "def outer():\n    def inner():\n        return 1\n    return inner()\n";
        let new = "def outer():\n    def inner():\n        return 2\n    return inner()\n";
        let told = told(ground("a.py", Some(old), new));
        let back = told.iter().find(|(what, _)| what.ends_with("session"));
        assert_eq!(back.unwrap().1, old);
    }
}
