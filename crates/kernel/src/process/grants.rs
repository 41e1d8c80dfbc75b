//! What a person grants a command beside the workspace, as the capabilities that takes.
//!
//! Who is given a directory is given all that lies in it, so what is needed is the capability of
//! whatever is below: `<path>/*`, which a set has only by a pattern that takes any name there. What
//! may be written can be read as well.
//!
//! Invariant: a job is granted the very paths whose capabilities were checked. Where a link leads is
//! looked up when the call is taken in and again when it is planned; a difference is refused.

use super::failure::{CheckId, ProcessFailure};
use super::job::Job;
use super::surround::real;
use std::collections::BTreeSet;
use std::path::Path;

/// What it takes to read `reads`, and to read and write `writes`.
pub(super) fn needs(reads: &[String], writes: &[String]) -> BTreeSet<String> {
    let lead = |paths: &[String]| -> Vec<String> {
        // One that leads nowhere is refused when it is planned.
        let lead = |path: &String| real(path).unwrap_or_else(|_| path.clone());
        paths.iter().map(lead).collect()
    };
    capabilities(&lead(reads), &lead(writes))
}

/// Where the reads and the writes of `job` lead.
pub(super) fn led(job: &Job) -> Result<(Vec<String>, Vec<String>), ProcessFailure> {
    let lead = |paths: &[String]| -> Result<Vec<String>, ProcessFailure> {
        paths.iter().map(|path| real(path)).collect()
    };
    let (reads, writes) = (lead(&job.reads)?, lead(&job.writes)?);
    if capabilities(&reads, &writes) != *job.needs() {
        return Err(ProcessFailure::Check {
            id: CheckId::Paths,
            what: "what is granted was replaced while it was being checked".to_owned(),
            fix: "run it again once nobody changes it".to_owned(),
        });
    }
    Ok((reads, writes))
}

/// The same of paths that lead nowhere else.
fn capabilities(reads: &[String], writes: &[String]) -> BTreeSet<String> {
    let of = |right: &str, path: &String| {
        if Path::new(path).is_dir() {
            format!("{right}.{}/*", path.trim_end_matches('/'))
        } else {
            format!("{right}.{path}")
        }
    };
    let read = reads.iter().chain(writes);
    let read = read.map(|path| of("filesystem.read", path));
    let written = writes.iter().map(|path| of("filesystem.write", path));
    read.chain(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_policy::capability::CapabilitySet;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_takes_the_right_to_all_of_it_and_a_link_that_to_where_it_leads() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        fs::create_dir(place.join("data")).unwrap();
        fs::write(place.join("file"), "").unwrap();
        symlink("data", place.join("link")).unwrap();
        let at = place.to_str().unwrap();
        let path = |name: &str| vec![format!("{at}/{name}")];
        for (reads, writes, want) in [
            (
                path("file"),
                vec![],
                vec![format!("filesystem.read.{at}/file")],
            ),
            (
                path("data"),
                vec![],
                vec![format!("filesystem.read.{at}/data/*")],
            ),
            (
                path("gone"),
                vec![],
                vec![format!("filesystem.read.{at}/gone")],
            ),
            (
                vec!["/".to_owned()],
                vec![],
                vec!["filesystem.read./*".to_owned()],
            ),
            (
                path("data"),
                path("link"),
                vec![
                    format!("filesystem.read.{at}/data/*"),
                    format!("filesystem.write.{at}/data/*"),
                ],
            ),
        ] {
            let found: Vec<String> = needs(&reads, &writes).into_iter().collect();
            assert_eq!(found, want);
        }
    }

    #[test]
    fn only_a_pattern_that_takes_everything_below_has_a_directory() {
        for (pattern, want) in [
            ("*", true),
            ("filesystem.*", true),
            ("filesystem.write.*", true),
            ("filesystem.write./**", true),
            ("filesystem.write./srv/*", true),
            ("filesystem.write./srv/data/*", true),
            ("filesystem.write./srv/data/**", true),
            ("filesystem.write./srv/data", false),
            ("filesystem.write./srv/data/a", false),
            ("filesystem.write./srv/data/a*", false),
            ("filesystem.write./srv/data/*.txt", false),
            ("filesystem.write./srv/data/*/a", false),
            ("filesystem.write./srv/other/**", false),
            ("filesystem.read.*", false),
        ] {
            let set = CapabilitySet::parse([pattern]).unwrap();
            let has = set.contains("filesystem.write./srv/data/*");
            assert_eq!(has, want, "{pattern}");
        }
    }

    #[test]
    fn what_leads_elsewhere_than_when_it_was_checked_is_not_granted() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        for name in ["one", "two"] {
            fs::create_dir(place.join(name)).unwrap();
        }
        let link = place.join("link");
        symlink("one", &link).unwrap();
        let writes = vec![link.to_str().unwrap().to_owned()];
        let job = Job::of(vec!["true".to_owned()]).unwrap();
        let job = job.granted(Vec::new(), writes);
        let leads = place.join("one").to_str().unwrap().to_owned();
        assert_eq!(led(&job).unwrap(), (vec![], vec![leads]));
        fs::remove_file(&link).unwrap();
        symlink("two", &link).unwrap();
        assert_eq!(led(&job).unwrap_err().code(), "check_failed");
        fs::remove_file(&link).unwrap();
        fs::write(&link, "").unwrap();
        assert_eq!(led(&job).unwrap_err().code(), "check_failed");
    }
}
