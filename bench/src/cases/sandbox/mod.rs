//! Sandboxes: from nothing, warm, and in memory; as an ordinary user and as root.

mod cold;
mod docker;
mod memory;
mod peers;
mod person;
mod place;
mod warm;

pub(super) use person::{Hall, Person};
pub(super) use place::{DENIED, Place, run as run_inside};

use crate::failure::Failure;
use crate::machine;
use crate::options::Options;
use crate::programs;
use crate::table::Row;
use cold::Times;
use docker::Engine;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Said to workers.
const NO_ENGINE: &str = "no engine: ";

pub(super) fn run(options: &Options) -> Result<Vec<Row>, Failure> {
    if !programs::handed_out("airlock")?.is_file() {
        let what = "sandboxes cold, warm and in memory";
        return Ok(vec![Row::missing(what, "as above", programs::NOT_BUILT)]);
    }
    let hall = Hall::new()?;
    let peers = peers_directory()?;
    let engine = Engine::start(hall.path());
    let engine_text = match &engine {
        Ok(engine) => engine.socket().into_os_string(),
        Err(why) => format!("{NO_ENGINE}{why}").into(),
    };
    let quick = options.pick("full", "quick");
    let mut rows = Vec::new();
    for person in Person::ALL {
        if !person.possible() {
            let what = format!("cold and warm sandboxes of {person}");
            rows.push(Row::missing(what, "as above", "run the bench as root"));
            let what = format!("cold start as {person} against docker run");
            let why = "run the bench as root, who starts its engine";
            rows.push(Row::missing(what, "at least 20 x faster", why));
            continue;
        }
        // What npm's peers keep must lie outside the temporary directory, and be the person's.
        if peers.is_dir() {
            person.directory(&peers_home(&peers)?)?;
        }
        let arguments: [&OsStr; 3] = [quick.as_ref(), peers.as_os_str(), &engine_text];
        rows.extend(hall.rows(person, "sandbox", &arguments)?);
        rows.push(memory::row(&hall, person, options.pick(50, 10))?);
    }
    Ok(rows)
}

fn peers_home(peers: &Path) -> Result<PathBuf, Failure> {
    let home = peers.join("home");
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// `bench-peers` in the target directory this program was built in.
fn peers_directory() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let target = program.parent().and_then(Path::parent);
    target
        .map(|target| target.join("bench-peers"))
        .ok_or_else(|| Failure::new("this program lies in no target directory"))
}

/// What the peers that npm installed say they are.
pub(crate) fn npm_versions() -> Vec<String> {
    let version = |program: &str| {
        let directory = peers_directory().ok()?;
        let path = directory.join("node_modules/.bin").join(program);
        let said = machine::program_version(path.to_str()?)?;
        Some(format!("{program} {said}"))
    };
    let shown = |program| version(program).unwrap_or_else(|| format!("{program} not installed"));
    ["srt", "codex"].into_iter().map(shown).collect()
}

/// The worker: everything one person measures.
pub(super) fn worker(home: &Path, arguments: &[String]) -> Result<Vec<Row>, Failure> {
    let [extent, peers, engine] = arguments else {
        return Err(Failure::new("a worker needs three arguments"));
    };
    let full = extent == "full";
    let own = Person::own();
    let person = own.to_string();
    let times = Times {
        quick: if full { 200 } else { 20 },
        slow: if full { 7 } else { 2 },
    };
    let engine = match engine.strip_prefix(NO_ENGINE) {
        Some(why) => Err(why),
        None => Ok(Path::new(engine)),
    };
    // Each of the slow ones once: as those who use it would call it.
    let slow = match own {
        Person::Ordinary => Vec::from(peers::npm(Path::new(peers))),
        Person::Root => vec![peers::docker(engine)],
    };
    let mut rows = cold::rows(&person, home, &slow, times)?;
    rows.push(warm::row(&person, home, times.quick * 2)?);
    Ok(rows)
}

/// The worker that holds sandboxes while its memory is looked at.
pub(super) fn hold(home: &Path, arguments: &[String]) -> Result<Vec<Row>, Failure> {
    let count = arguments.first().and_then(|text| text.parse().ok());
    memory::hold(home, count.ok_or_else(|| Failure::new("how many?"))?)?;
    Ok(Vec::new())
}
