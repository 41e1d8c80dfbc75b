//! Which test a runner speaks of: known by where it stands as well as by its name.
//!
//! Two tests may have one name, in two files, modules or classes. What a runner says of one says
//! nothing of the other, so each is looked up by what that runner tells beside the name: the test
//! binary and the path of modules (`cargo`), the file and the classes (`pytest`), the package
//! (`go`), the file and the line of a failure (`node`).
//!
//! Guarantee: where a runner does not tell namesakes apart, a test is taken to have failed only if
//! none of those that may be it passed.
//!
//! Non-guarantee: a runner's output is text that the tests themselves can imitate.

mod read;

pub(crate) use read::began;

use crate::runs::{Framework, is_test, names_of};
use crate::suite::TestItem;
use crate::whence::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a run printed.
#[derive(Debug, Clone, Copy)]
pub struct Printed<'a> {
    /// On its standard output.
    pub stdout: &'a str,
    /// On its standard error.
    pub stderr: &'a str,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Nobody told.
    Silent,
    /// It passed, or one did that may be it.
    Passed,
    /// It failed.
    Failed,
}

/// One test as a run told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    name: String,
    /// The root file of its binary, its package or its file, as the runner calls it.
    place: Option<String>,
    line: Option<u32>,
    passed: bool,
}

/// All tests that a run told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    framework: Framework,
    module: Option<String>,
    told: Vec<Told>,
    /// Which of them may be called so in a file, by their numbers.
    by_name: HashMap<String, Vec<usize>>,
}

/// Tests by what they are called in their files.
type Namesakes<'t> = HashMap<&'t str, Vec<&'t TestItem>>;

fn namesakes(all: &[TestItem]) -> Namesakes<'_> {
    let mut found = Namesakes::new();
    for test in all {
        found.entry(test.name.as_str()).or_default().push(test);
    }
    found
}

/// What a test is called by its runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Names, with the places they were told with.
    names: BTreeSet<(Option<String>, String)>,
    /// Whether these are its own, and nobody else's.
    sure: bool,
    /// What it is called in its file.
    name: String,
    path: String,
    /// Its line, where another test of its file has its name.
    line: Option<u32>,
}

impl Known {
    /// What heads of failures are looked for by, as `framework` writes them.
    pub(crate) fn heads(&self, framework: Framework) -> BTreeSet<&str> {
        match framework {
            Framework::Cargo => self.names().collect(),
            // There the head is another name than that in the list.
            Framework::Pytest | Framework::Go | Framework::Node => {
                BTreeSet::from([self.name.as_str()])
            }
        }
    }

    /// What a runner is asked for, to run it and little else.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(_, name)| name.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    No,
    Perhaps,
    Exact,
}

impl Roster {
    /// What `printed` tells, of the tests of a module of Go's called `module`.
    pub fn read(framework: Framework, printed: Printed<'_>, module: Option<&str>) -> Self {
        let told = match framework {
            Framework::Cargo => read::cargo(printed),
            Framework::Go => read::go(printed.stdout),
            Framework::Pytest => read::pytest(printed.stdout),
            Framework::Node => read::node(printed),
        };
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, told) in told.iter().enumerate() {
            let names: BTreeSet<&str> = names_of(&told.name).collect();
            for name in names {
                by_name.entry(name.to_owned()).or_default().push(number);
            }
        }
        Self {
            framework,
            module: module.map(str::to_owned),
            told,
            by_name,
        }
    }

    /// Whether it tells of no test at all.
    pub const fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// What the runner calls `test`, which is one of `all`; none if it does not tell of it.
    pub fn known(&self, test: &TestItem, all: &[TestItem]) -> Option<Known> {
        self.known_among(test, &namesakes(all))
    }

    /// How each of `tests` ended, which are all there are; of one that it does not tell of nobody
    /// told. It takes as long as there are tests and not as pairs of them.
    pub fn endings(&self, tests: &[TestItem]) -> Vec<Ended> {
        let all = namesakes(tests);
        let ended = |test: &TestItem| {
            let known = self.known_among(test, &all);
            known.map_or(Ended::Silent, |known| self.ended(&known))
        };
        tests.iter().map(ended).collect()
    }

    /// What may be called `name` in a file.
    fn told_as(&self, name: &str) -> impl Iterator<Item = &Told> {
        let numbers = self.by_name.get(name).into_iter().flatten();
        numbers.filter_map(move |number| self.told.get(*number))
    }

    fn known_among(&self, test: &TestItem, all: &Namesakes<'_>) -> Option<Known> {
        let of = |fit: Fit| {
            let told = self.told_as(&test.name);
            told.filter(move |told| self.fit(told, test) == fit)
        };
        let mut names: BTreeSet<_> = of(Fit::Exact).map(named).collect();
        let sure = !names.is_empty();
        if !sure {
            let claimed = |told: &Told| {
                let others = names_of(&told.name).filter_map(|name| all.get(name));
                let mut others = others.flatten().filter(|other| **other != test);
                others.any(|other| self.fit(told, other) == Fit::Exact)
            };
            names = of(Fit::Perhaps)
                .filter(|told| !claimed(told))
                .map(named)
                .collect();
        }
        let same = all.get(test.name.as_str()).into_iter().flatten();
        let beside = same.filter(|other| other.path == test.path && other.line != test.line);
        let known = Known {
            names,
            sure,
            name: test.name.clone(),
            path: test.path.clone(),
            line: (beside.count() > 0 && test.line > 0).then_some(test.line),
        };
        (!known.names.is_empty()).then_some(known)
    }

    /// How the test that is `known` so ended.
    pub fn ended(&self, known: &Known) -> Ended {
        // A test may be several: one for each set of its parameters.
        let mut tests: BTreeMap<(&str, Option<&str>), Vec<&Told>> = BTreeMap::new();
        let names: BTreeSet<&str> = known.names().collect();
        let told = names.into_iter().flat_map(|name| {
            let told = self.told_as(name);
            told.filter(move |told| told.name == name)
        });
        for told in told.filter(|told| self.is_of(told, known)) {
            let key = (base(self.framework, &told.name), told.place.as_deref());
            tests.entry(key).or_default().push(told);
        }
        if tests.is_empty() {
            return Ended::Silent;
        }
        // Node tells the place of a failure alone: what passed may be anybody.
        let told = || tests.values().flatten();
        if self.framework == Framework::Node
            && told().any(|told| !told.passed && told.place.is_some())
        {
            return Ended::Failed;
        }
        // One name in one place that both passed and failed is two tests.
        let failed = |tests: &Vec<&Told>| {
            let both = |told: &&Told| {
                let mut others = tests.iter();
                others.any(|other| other.name == told.name && other.passed != told.passed)
            };
            tests.iter().any(|told| !told.passed) && !tests.iter().any(both)
        };
        let ends_badly = if known.sure {
            tests.values().any(failed)
        } else {
            tests.values().all(failed)
        };
        if ends_badly {
            Ended::Failed
        } else {
            Ended::Passed
        }
    }

    /// Whether several tests that failed have the name of the one that is `known` so.
    pub(crate) fn has_namesakes(&self, known: &Known) -> bool {
        let own: BTreeSet<&str> = known
            .names()
            .map(|name| head(self.framework, name))
            .collect();
        let told = self.told.iter().filter(|told| !told.passed);
        let same = told.filter(|told| own.contains(head(self.framework, &told.name)));
        let bases: BTreeSet<(&str, Option<&str>, Option<u32>)> = same
            .map(|told| {
                let base = base(self.framework, &told.name);
                (base, told.place.as_deref(), told.line)
            })
            .collect();
        bases.len() > 1
    }

    fn is_of(&self, told: &Told, known: &Known) -> bool {
        let same = |(place, name): &(Option<String>, String)| {
            let elsewhere = match (self.framework, place, &told.place) {
                (Framework::Node, _, _) | (_, None, _) | (_, _, None) => false,
                (_, Some(place), Some(told)) => place != told,
            };
            *name == told.name && !elsewhere
        };
        if !known.names.iter().any(same) {
            return false;
        }
        match (self.framework, &told.place) {
            (Framework::Node, Some(place)) => {
                let there = is_file(place, &known.path);
                there && known.line.is_none_or(|line| told.line == Some(line))
            }
            (_, _) => true,
        }
    }

    fn fit(&self, told: &Told, test: &TestItem) -> Fit {
        if !is_test(&told.name, &test.name) {
            return Fit::No;
        }
        match self.framework {
            Framework::Cargo => fit_cargo(told, test),
            Framework::Pytest => fit_pytest(told, test),
            Framework::Go => self.fit_go(told, test),
            Framework::Node => match &told.place {
                Some(place) if !is_file(place, &test.path) => Fit::No,
                Some(_) | None => Fit::Perhaps,
            },
        }
    }

    fn fit_go(&self, told: &Told, test: &TestItem) -> Fit {
        let (Some(package), Some(module)) = (&told.place, &self.module) else {
            return Fit::Perhaps;
        };
        let own = match test.path.rsplit_once('/') {
            Some((directory, _)) => format!("{module}/{directory}"),
            None => module.clone(),
        };
        if *package == own { Fit::Exact } else { Fit::No }
    }
}

fn named(told: &Told) -> (Option<String>, String) {
    (told.place.clone(), told.name.clone())
}

fn is_file(told: &str, path: &str) -> bool {
    let place = Place {
        path: told.to_owned(),
        line: 0,
    };
    place.is_of(path)
}

/// A name without the parameters of one case.
fn base(framework: Framework, name: &str) -> &str {
    match framework {
        Framework::Pytest => name.split('[').next().unwrap_or(name),
        Framework::Go => name.split('/').next().unwrap_or(name),
        Framework::Cargo => match name.rsplit_once("::") {
            Some((test, case)) if case.starts_with("case_") => test,
            Some(_) | None => name,
        },
        Framework::Node => name,
    }
}

/// What stands at the head of its failure of the name of a test.
fn head(framework: Framework, name: &str) -> &str {
    let base = base(framework, name);
    match framework {
        Framework::Pytest => base.rsplit("::").next().unwrap_or(base),
        Framework::Cargo | Framework::Go | Framework::Node => base,
    }
}

fn fit_cargo(told: &Told, test: &TestItem) -> Fit {
    let base = base(Framework::Cargo, &told.name);
    let segments: Vec<&str> = base.split("::").collect();
    let own: Vec<&str> = test.within.iter().map(String::as_str).collect();
    let own = [own.as_slice(), &[test.name.as_str()]].concat();
    let outer = segments.strip_suffix(own.as_slice());
    let chain = told
        .place
        .as_deref()
        .and_then(|root| modules(root, &test.path));
    match (outer, chain) {
        (Some(outer), Some(chain)) if outer == chain => Fit::Exact,
        // A module can be anywhere, by its `#[path]`, and a macro can make one.
        (_, _) => Fit::Perhaps,
    }
}

/// The modules that lead from the root file of a binary to the file `path`, where files lie as
/// they do.
fn modules<'p>(root: &str, path: &'p str) -> Option<Vec<&'p str>> {
    if is_file(root, path) {
        return Some(Vec::new());
    }
    let (directory, _) = root.rsplit_once('/')?;
    let beneath = format!("{directory}/");
    let start = path
        .match_indices(&beneath)
        .filter(|(at, _)| *at == 0 || path.get(..*at).is_some_and(|before| before.ends_with('/')))
        .last()?
        .0;
    let rest = path.get(start + beneath.len()..)?.strip_suffix(".rs")?;
    let mut modules: Vec<&str> = rest.split('/').collect();
    if modules.len() > 1 && modules.last() == Some(&"mod") {
        modules.pop();
    }
    Some(modules)
}

fn fit_pytest(told: &Told, test: &TestItem) -> Fit {
    let base = base(Framework::Pytest, &told.name);
    let mut parts = base.split("::");
    let file = parts.next().unwrap_or_default();
    let mut within: Vec<&str> = parts.collect();
    within.pop();
    if is_file(file, &test.path) && within == test.within {
        Fit::Exact
    } else {
        // A class may have its tests from another, of another file even.
        Fit::Perhaps
    }
}

#[cfg(test)]
mod tests;
