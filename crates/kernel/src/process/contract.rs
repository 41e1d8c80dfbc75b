//! What the execution contract says besides how to run a program: which files it needs, which it is
//! to leave, and what for.
//!
//! Guarantee: a file is told of only to whoever may read it. Nothing runs unless every input is there
//! and may be read, and of what it leaves no more than [`FILES_OUT`] bytes are given back, without part
//! of a secret where they end.
//! Non-guarantee: what a program leaves without being asked for it stays in its stage, however large.

use super::exec_run::invalid;
use super::failure::{CheckId, ProcessFailure};
use crate::beneath::{Kind, Root};
use crate::tools::{InvalidArguments, ReadFilter};
use airlock_core::{RequestPath, WorkspacePath};
use airlock_sanitise::{LONGEST_SECRET, Sanitiser};
use serde_json::{Value, json};
use std::io::Read as _;

/// Most bytes of all the files that are given back.
const FILES_OUT: usize = 10 * 1024 * 1024;

/// Most files of each kind, and most characters of a purpose.
const FILES: usize = 64;
const PURPOSE: usize = 500;

/// The files and the purpose of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    inputs: Vec<WorkspacePath>,
    outputs: Vec<WorkspacePath>,
    pub(super) purpose: Option<String>,
}

impl Terms {
    /// Reads them as a caller wrote them.
    pub(super) fn of(
        inputs: &[String],
        outputs: &[String],
        purpose: Option<String>,
        root: &Root,
    ) -> Result<Self, InvalidArguments> {
        let long = |text: &String| text.chars().count() > PURPOSE;
        if purpose.as_ref().is_some_and(long) {
            let what = format!("over {PURPOSE} characters");
            return Err(invalid(CheckId::Sizes, "purpose", &what, "say it shorter"));
        }
        Ok(Self {
            inputs: files("inputs", inputs, root)?,
            outputs: files("outputs", outputs, root)?,
            purpose,
        })
    }

    /// Whether no file is named.
    pub(crate) const fn names_no_file(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    /// Fails unless every input is a file that may be read.
    pub(crate) fn met(&self, root: &Root, filter: &dyn ReadFilter) -> Result<(), ProcessFailure> {
        // Whoever may not read a file does not learn whether it is there.
        let readable = |path: &&WorkspacePath| {
            let opened = root.open_beneath(path);
            let may = |real: &WorkspacePath| filter.may_read(path) && filter.may_read(real);
            opened.is_ok_and(|opened| opened.kind == Kind::File && may(&opened.real))
        };
        match self.inputs.iter().find(|path| !readable(path)) {
            None => Ok(()),
            Some(path) => Err(ProcessFailure::Check {
                id: CheckId::Paths,
                what: format!("the input `{path}` is no file that this caller can read"),
                fix: "make it first, or leave it out of `inputs`".to_owned(),
            }),
        }
    }

    /// Adds the files it was to leave to a result, as they are now.
    pub(crate) fn tell(
        &self,
        root: &Root,
        filter: &dyn ReadFilter,
        secrets: &Sanitiser,
        result: &mut Value,
    ) {
        let mut left = FILES_OUT;
        let paths = self.outputs.iter();
        let told: Vec<Value> = paths
            .map(|path| found(path, root, filter, secrets, &mut left))
            .collect();
        if let Some(fields) = result.as_object_mut().filter(|_| !told.is_empty()) {
            fields.insert("outputs".to_owned(), Value::Array(told));
        }
    }
}

/// What is known of one file; `left` is what may still be given back.
fn found(
    path: &WorkspacePath,
    root: &Root,
    filter: &dyn ReadFilter,
    secrets: &Sanitiser,
    left: &mut usize,
) -> Value {
    let opened = root.open_beneath(path).ok();
    let opened = opened.filter(|opened| filter.may_read(path) && filter.may_read(&opened.real));
    let file = opened.and_then(|opened| opened.read().ok());
    let mut content = Vec::new();
    let bytes = file.and_then(|file| {
        let bytes = file.metadata().ok()?.len();
        // Some more is read to know what stands where it is cut.
        let most = left.saturating_add(LONGEST_SECRET) as u64;
        file.take(most).read_to_end(&mut content).ok()?;
        Some(bytes)
    });
    let Some(bytes) = bytes else {
        return json!({ "path": path.as_str(), "missing": true });
    };
    let given = content.len().min(*left);
    if given < content.len() {
        let known = secrets.find(&content);
        content = secrets.part(&content, &known, 0..given).into_owned();
    }
    *left -= given;
    let truncated = (given as u64) < bytes;
    if truncated
        && let Err(error) = std::str::from_utf8(&content)
        && error.error_len().is_none()
    {
        // The cut fell inside a character.
        content.truncate(error.valid_up_to());
    }
    match String::from_utf8(content) {
        Ok(mut text) if !text.contains('\0') => {
            if truncated {
                text.push_str("\n[… the rest of the file is cut …]");
            }
            json!({ "path": path.as_str(), "bytes": bytes, "text": text, "truncated": truncated })
        }
        Ok(_) | Err(_) => json!({ "path": path.as_str(), "bytes": bytes, "binary": true }),
    }
}

/// Paths beneath the workspace (IV-03), not too many of them (IV-05).
fn files(at: &str, paths: &[String], root: &Root) -> Result<Vec<WorkspacePath>, InvalidArguments> {
    if paths.len() > FILES {
        let what = format!("over {FILES} files");
        return Err(invalid(CheckId::Sizes, at, &what, "name fewer"));
    }
    let inside = |text: &String| {
        let parsed = RequestPath::parse(text, root.path()).ok();
        let inside = parsed.and_then(|path| path.inside().cloned());
        inside.filter(|path| !path.is_root()).ok_or_else(|| {
            let (what, fix) = (
                "it is not beneath the workspace",
                "name files beneath the workspace",
            );
            invalid(CheckId::Paths, at, what, fix)
        })
    };
    paths.iter().map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    const SECRET: &str = "top-secret";

    /// Policy: `denied` may not be read.
    struct NotDenied;

    impl ReadFilter for NotDenied {
        fn may_read(&self, path: &WorkspacePath) -> bool {
            path.as_str() != "denied"
        }
    }

    #[test]
    fn a_file_is_cut_outside_of_secrets_wherever_the_cut_falls() {
        let place = tempfile::tempdir().unwrap();
        let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let text = format!("{} {token} after\n", "x".repeat(100));
        std::fs::write(place.path().join("a.txt"), &text).unwrap();
        let root = Root::open(place.path()).unwrap();
        let path = WorkspacePath::new("a.txt").unwrap();
        for cut in 0..text.len() {
            let mut left = cut;
            let told = found(&path, &root, &NotDenied, &Sanitiser::new(), &mut left);
            let shown = told["text"].as_str().unwrap();
            let (cut_text, mark) = shown.split_once("\n[… the rest").unwrap();
            assert!(mark.ends_with("cut …]"), "{shown}");
            let begun = cut > 101 && cut < 101 + token.len();
            assert_eq!(
                cut_text.ends_with("[secret:github-token]"),
                begun,
                "{cut}: {shown}"
            );
            let clean = Sanitiser::new().text(shown).text.into_owned();
            assert!(!clean.contains("ghp_a"), "{cut}: {clean}");
            assert_eq!((left, &told["truncated"]), (0, &json!(true)), "{cut}");
        }
        let mut left = text.len();
        let told = found(&path, &root, &NotDenied, &Sanitiser::new(), &mut left);
        assert_eq!((told["text"].as_str(), left), (Some(&*text), 0));
    }

    #[test]
    fn no_file_that_is_swapped_meanwhile_tells_of_another() {
        const ENOUGH: usize = 500;
        const MOST: usize = 500_000;
        let outer = tempfile::tempdir().unwrap();
        let place = outer.path().join("w");
        std::fs::create_dir(&place).unwrap();
        for secret in [place.join("denied"), outer.path().join("outside")] {
            std::fs::write(secret, SECRET).unwrap();
        }
        std::fs::write(place.join("file"), "harmless\n").unwrap();
        let root = Root::open(&place).unwrap();
        let names = ["file".to_owned()];
        let terms = Terms::of(&names, &names, None, &root).unwrap();
        let stop = AtomicBool::new(false);
        let swap = || {
            let (link, aside, file) = (place.join("link"), place.join("aside"), place.join("file"));
            for target in ["../outside", "denied"].iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                symlink(target, &link).unwrap();
                std::fs::rename(&file, &aside).unwrap();
                std::fs::rename(&link, &file).unwrap();
                std::fs::rename(&aside, &file).unwrap();
            }
        };
        let (mut told, mut missing) = (0, 0);
        std::thread::scope(|scope| {
            let swapping = scope.spawn(swap);
            for _ in 0..MOST {
                let met = terms.met(&root, &NotDenied);
                let mut result = json!({});
                terms.tell(&root, &NotDenied, &Sanitiser::new(), &mut result);
                let said = format!("{result} {met:?}");
                if said.contains(SECRET) {
                    stop.store(true, Ordering::Relaxed);
                    panic!("{said}");
                }
                if result["outputs"][0].get("missing").is_some() {
                    missing += 1;
                } else {
                    told += 1;
                }
                if (told >= ENOUGH && missing >= ENOUGH) || swapping.is_finished() {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        // A race that was never or always lost proves nothing.
        assert!(told >= ENOUGH && missing >= ENOUGH, "{told}, {missing}");
    }
}
