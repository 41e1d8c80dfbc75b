//! Stages and denials on a small tree and on a big one: neither may look at what did not change.

mod tree;

use super::sandbox::{DENIED, Hall, Person, Place, run_inside};
use crate::failure::Failure;
use crate::measure::{self, Samples, median_ratio};
use crate::options::Options;
use crate::table::Row;
use airlock_sandbox::stage::{DiffOptions, Stage, Stages};
use airlock_sandbox::stage_owner;
use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const SMALL_TREE: &str = "small";
const BIG_TREE: &str = "big";
const SMALL: u32 = 100;
const BIG: u32 = 300_000;
const FLAT_WANTED: &str = "at most 1.5 x: flat";
const FLAT_MOST: f64 = 1.5;
const FEW: u32 = 10;
const MANY: u32 = 1_000;
const DENY_WANTED: &str = "at most + 50 ms";
const DENY_MOST: f64 = 50e6;

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    let hall = Hall::new()?;
    let files = options.pick(BIG, 20_000).to_string();
    let rounds = options.pick("30", "8");
    // Both measure on the same trees: root's sandboxes see them as their own, whoever's they are.
    hall.rows(Person::Ordinary, "trees", &[files.as_ref()])?;
    let owner = Person::Ordinary.directory(hall.path())?;
    let (small, big) = (owner.join(SMALL_TREE), owner.join(BIG_TREE));
    let mut rows = Vec::new();
    for person in Person::ALL {
        if !person.possible() {
            let what = format!("stages and denials of {person}");
            rows.push(Row::missing(what, "as above", "run the bench as root"));
            continue;
        }
        let arguments: [&OsStr; 4] = [
            small.as_os_str(),
            big.as_os_str(),
            files.as_ref(),
            rounds.as_ref(),
        ];
        rows.extend(hall.rows(person, "stage", &arguments)?);
    }
    Ok(rows)
}

/// The worker that makes the trees.
pub(super) fn trees(home: &Path, arguments: &[String]) -> Result<Vec<Row>, Failure> {
    let files = arguments.first().and_then(|text| text.parse().ok());
    let files = files.ok_or_else(|| Failure::new("how many files?"))?;
    tree::write(&home.join(SMALL_TREE), SMALL)?;
    tree::write(&home.join(BIG_TREE), files)?;
    Ok(Vec::new())
}

/// The worker: everything one person measures.
pub(super) fn worker(home: &Path, arguments: &[String]) -> Result<Vec<Row>, Failure> {
    let [small, big, files, rounds] = arguments else {
        return Err(Failure::new("a worker needs four arguments"));
    };
    let bench = Bench {
        person: Person::own(),
        home,
        small: Path::new(small),
        big: Path::new(big),
        files: files.parse()?,
        rounds: rounds.parse()?,
    };
    let mut rows = vec![bench.create()?];
    rows.extend(bench.diff()?);
    rows.push(bench.deny()?);
    Ok(rows)
}

struct Bench<'a> {
    person: Person,
    home: &'a Path,
    small: &'a Path,
    big: &'a Path,
    files: u32,
    rounds: usize,
}

impl Bench<'_> {
    fn create(&self) -> Result<Row, Failure> {
        let stages = Stages::open(&self.home.join("created"))?;
        let create = |tree: &Path| -> Result<f64, Failure> {
            let start = Instant::now();
            let stage = stages.open_or_create("new", tree, stage_owner())?;
            let taken = measure::nanos(start.elapsed());
            drop(stage);
            stages.drop_stage("new")?;
            Ok(taken)
        };
        let [small, big] = self.in_turns(|| create(self.small), || create(self.big))?;
        Ok(self.flat("create", &small, &big))
    }

    /// `ours` on the big tree against the same on the small one.
    fn flat(&self, what: &str, small: &[f64], big: &[f64]) -> Row {
        let ratio = median_ratio(big, small);
        let text = |times: &[f64]| measure::time_text(Samples::new(times.to_vec()).median());
        let files = self.files;
        Row::new(format!("stage {what} as {}, {files} files", self.person))
            .measured(text(big))
            .against(format!("{} on {SMALL} files", text(small)))
            .ratio(ratio)
            .wanted(FLAT_WANTED, ratio <= FLAT_MOST)
    }

    /// Times two things in turns.
    fn in_turns(
        &self,
        mut first: impl FnMut() -> Result<f64, Failure>,
        mut second: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<[Vec<f64>; 2], Failure> {
        first()?;
        second()?;
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            one.push(first()?);
            other.push(second()?);
        }
        Ok([one, other])
    }

    fn diff(&self) -> Result<[Row; 2], Failure> {
        let small = self.changed(self.small, "diff-small", FEW)?;
        let few = self.changed(self.big, "diff-few", FEW)?;
        let many = self.changed(self.big, "diff-many", MANY)?;
        let [on_small, on_big] = self.in_turns(|| diff(&small, FEW), || diff(&few, FEW))?;
        let what = format!("diff of {FEW} changes");
        let flat = self.flat(&what, &on_small, &on_big);
        let [of_few, of_many] = self.in_turns(|| diff(&few, FEW), || diff(&many, MANY))?;
        let factor = f64::from(MANY) / f64::from(FEW);
        let each = median_ratio(&of_many, &of_few) / factor;
        let text = |times| measure::time_text(Samples::new(times).median());
        let what = format!("stage diff as {}, {MANY} changes", self.person);
        let proportional = Row::new(what)
            .measured(text(of_many))
            .against(format!("{} for {FEW} changes", text(of_few)))
            .ratio(each)
            .wanted("a change costs at most 1.5 x", each <= FLAT_MOST);
        Ok([flat, proportional])
    }

    /// A stage of `tree` in which a sandbox changed `count` files.
    fn changed(&self, tree: &Path, name: &str, count: u32) -> Result<Stage, Failure> {
        let place = Place::new(self.home, tree, name)?;
        let mut sandbox = place.start(&[])?;
        let script = tree::change_script(count);
        run_inside(&mut sandbox, &["sh", "-euc", &script])?;
        sandbox.stop();
        Ok(place.stage)
    }

    fn deny(&self) -> Result<Row, Failure> {
        let place = Place::new(self.home, self.big, "deny")?;
        let start = |denied: &[&str]| -> Result<f64, Failure> {
            let begun = Instant::now();
            let mut sandbox = place.start(denied)?;
            run_inside(&mut sandbox, &["/bin/true"])?;
            let taken = measure::nanos(begun.elapsed());
            sandbox.stop();
            Ok(taken)
        };
        let [without, with] = self.in_turns(|| start(&[]), || start(&[DENIED]))?;
        let begun = Instant::now();
        let walked = tree::walk(self.big)?;
        let walk = measure::time_text(measure::nanos(begun.elapsed()));
        if walked != self.files {
            return Err(Failure::new(format!("{walked} files were walked")));
        }
        let more = with
            .iter()
            .zip(&without)
            .map(|(with, without)| with - without);
        let more = Samples::new(more.collect()).median();
        let text = |times| measure::time_text(Samples::new(times).median());
        let files = self.files;
        let what = format!(
            "`true` cold as {}, `{DENIED}` denied in {files} files",
            self.person
        );
        Ok(Row::new(what)
            .measured(text(with))
            .against(format!("{} without; walking them: {walk}", text(without)))
            .difference(more)
            .wanted(DENY_WANTED, more <= DENY_MOST))
    }
}

fn diff(stage: &Stage, changes: u32) -> Result<f64, Failure> {
    let start = Instant::now();
    let diff = black_box(stage.diff(&DiffOptions::default())?);
    let taken = measure::nanos(start.elapsed());
    let found = u32::try_from(diff.changes.len())?;
    if found == changes && diff.conflicts.is_empty() {
        Ok(taken)
    } else {
        let conflicts = diff.conflicts.len();
        let text = format!("{found} changes and {conflicts} conflicts, not {changes} and none");
        Err(Failure::new(text))
    }
}
