//! What the probe said, and whether that is a denial.

use crate::attack::{Attack, Judge};
use airlock_sandbox::Launcher;
use airlock_sandbox::lifecycle::Outcome;
use airlock_sandbox::seccomp::ABSENT;
use serde::Deserialize;
use std::fmt;

/// The probe's line.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Said {
    pub(crate) achieved: bool,
    pub(crate) evidence: Option<String>,
    pub(crate) step: Option<String>,
    #[serde(default)]
    pub(crate) tried: Vec<(String, String)>,
}

impl Said {
    /// The last line of JSON in `output`.
    pub(crate) fn find(output: &[u8]) -> Option<Self> {
        let start = output.len().saturating_sub(256 << 10);
        let tail = String::from_utf8_lossy(output.get(start..)?);
        let mut lines = tail.lines().rev();
        lines.find_map(|line| serde_json::from_str(line.trim()).ok())
    }

    /// Each route with what it met, each answer once.
    pub(crate) fn answers(&self) -> Vec<String> {
        let mut answers: Vec<String> = self
            .tried
            .iter()
            .map(|(_, answer)| answer.clone())
            .collect();
        answers.sort();
        answers.dedup();
        answers
    }
}

/// The word for how a command ended.
pub(crate) fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("exited-{code}"),
        Outcome::Signalled(signal) => format!("signalled-{signal}"),
        Outcome::TimedOut => "timed-out".to_owned(),
        Outcome::OutOfMemory => "out-of-memory".to_owned(),
        Outcome::TooManyProcesses => "too-many-processes".to_owned(),
        Outcome::TooMuchOutput => "too-much-output".to_owned(),
        Outcome::FileTooLarge => "file-too-large".to_owned(),
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}

/// Why a confined run is not a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// The attack got through by this route, and every other it took was denied as expected. This
    /// alone can be a stated limit.
    Through {
        /// As the probe calls it.
        route: String,
        /// What it had to show.
        evidence: String,
    },
    /// Anything else.
    Otherwise(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Through { route, evidence } => write!(f, "ESCAPED: {route}: {evidence}"),
            Self::Otherwise(what) => f.write_str(what),
        }
    }
}

impl From<String> for Problem {
    fn from(what: String) -> Self {
        Self::Otherwise(what)
    }
}

/// Why the confined run is not a denial; nothing if it is one.
pub(crate) fn complaint(
    launcher: Launcher,
    attack: &Attack,
    said: Option<&Said>,
    ended: &str,
    changes: &[String],
) -> Option<Problem> {
    if let Some(change) = changes.first() {
        return Some(format!("ESCAPED: on the host {change}").into());
    }
    if attack.ends.contains(&ended) {
        return None;
    }
    let Some(said) = said else {
        return Some(format!("the probe said nothing and {ended}").into());
    };
    if ended != "exited-0" {
        return Some(format!("the command {ended}").into());
    }
    let stranger = stranger(launcher, attack, said);
    if said.achieved && attack.judge == Judge::Probe {
        let route = said.step.clone().unwrap_or_default();
        let evidence = said.evidence.clone().unwrap_or_default();
        return Some(match stranger {
            Some(stranger) => format!("ESCAPED: {route}: {evidence}; {stranger}").into(),
            None => Problem::Through { route, evidence },
        });
    }
    stranger.map(Problem::Otherwise)
}

/// The first answer that is none of those the attack may meet.
fn stranger(launcher: Launcher, attack: &Attack, said: &Said) -> Option<String> {
    let expected = |step: &str, answer: &str| {
        let by_bwrap = launcher == Launcher::Bwrap && attack.denied_by_bwrap.contains(&answer);
        attack.denied.contains(&answer)
            || by_bwrap
            || answer == "ENOSYS" && ABSENT.iter().any(|call| step.contains(call))
    };
    let mut tried = said.tried.iter();
    let stranger = tried.find(|(step, answer)| !expected(step, answer));
    stranger.map(|(step, answer)| format!("unexpected answer {answer} to `{step}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::{Class, Limit};
    use serde_json::json;

    fn said(achieved: bool, answer: &str) -> Said {
        Said {
            achieved,
            evidence: Some("it".to_owned()),
            step: Some("way".to_owned()),
            tried: vec![("way".to_owned(), answer.to_owned())],
        }
    }

    #[test]
    fn only_an_expected_denial_without_effect_is_one() {
        let attack = Attack::new(Class::Secrets, "x", "x", "x", |_| json!({})).denied(&["EACCES"]);
        let bomb = attack.ends(&["out-of-memory"]);
        let outside = attack.seen_from_outside();
        let changed = vec!["it changed".to_owned()];
        for (case, attack, said, ended, changes, good) in [
            (
                "denied",
                attack,
                Some(said(false, "EACCES")),
                "exited-0",
                vec![],
                true,
            ),
            (
                "another errno",
                attack,
                Some(said(false, "ENOENT")),
                "exited-0",
                vec![],
                false,
            ),
            (
                "achieved",
                attack,
                Some(said(true, "EACCES")),
                "exited-0",
                vec![],
                false,
            ),
            (
                "effect",
                attack,
                Some(said(false, "EACCES")),
                "exited-0",
                changed.clone(),
                false,
            ),
            ("silent", attack, None, "exited-0", vec![], false),
            (
                "broken probe",
                attack,
                Some(said(false, "EACCES")),
                "exited-64",
                vec![],
                false,
            ),
            (
                "killed as expected",
                bomb,
                None,
                "out-of-memory",
                vec![],
                true,
            ),
            ("killed otherwise", bomb, None, "timed-out", vec![], false),
            (
                "believes it",
                outside,
                Some(said(true, "EACCES")),
                "exited-0",
                vec![],
                true,
            ),
            (
                "is right",
                outside,
                Some(said(true, "EACCES")),
                "exited-0",
                changed,
                false,
            ),
        ] {
            let found = complaint(Launcher::Native, &attack, said.as_ref(), ended, &changes);
            assert_eq!(found.is_none(), good, "{case}: {found:?}");
        }
    }

    #[test]
    fn only_a_route_among_expected_denials_can_be_a_stated_limit() {
        let attack = Attack::new(Class::Secrets, "x", "x", "x", |_| json!({})).denied(&["EACCES"]);
        let limit = Limit::new("wa", "because");
        let changed = vec!["it changed".to_owned()];
        for (case, said, ended, changes, excused) in [
            (
                "achieved",
                Some(said(true, "EACCES")),
                "exited-0",
                vec![],
                true,
            ),
            (
                "achieved, and another answer is not expected",
                Some(said(true, "ENOENT")),
                "exited-0",
                vec![],
                false,
            ),
            (
                "another answer",
                Some(said(false, "ENOENT")),
                "exited-0",
                vec![],
                false,
            ),
            (
                "a broken probe",
                Some(said(true, "EACCES")),
                "exited-64",
                vec![],
                false,
            ),
            ("a silent probe", None, "exited-0", vec![], false),
            ("killed", None, "timed-out", vec![], false),
            (
                "an effect",
                Some(said(true, "EACCES")),
                "exited-0",
                changed,
                false,
            ),
        ] {
            let found = complaint(Launcher::Native, &attack, said.as_ref(), ended, &changes);
            let through = match &found {
                Some(Problem::Through { route, .. }) => limit.excuses(route),
                Some(Problem::Otherwise(_)) | None => false,
            };
            assert_eq!(through, excused, "{case}: {found:?}");
        }
        assert!(!limit.excuses("another way"));
    }

    #[test]
    fn what_bubblewrap_may_answer_is_no_answer_of_ours() {
        let attack = Attack::new(Class::Secrets, "x", "x", "x", |_| json!({}))
            .denied(&["EACCES"])
            .of_init();
        let said = said(false, "ENOENT");
        for (launcher, good) in [(Launcher::Native, false), (Launcher::Bwrap, true)] {
            let found = complaint(launcher, &attack, Some(&said), "exited-0", &[]);
            assert_eq!(found.is_none(), good, "{launcher:?}: {found:?}");
        }
    }

    #[test]
    fn the_line_is_found_after_any_output() {
        let output = b"noise\n{\"achieved\":true,\"evidence\":null,\"step\":null}\n";
        assert!(Said::find(output).is_some_and(|said| said.achieved));
        assert!(Said::find(b"noise").is_none());
        assert!(Said::find(b"").is_none());
    }
}
