//! A sanitiser for each session.
//!
//! Guarantee: within a session a number never means two secrets, also after a restart: the highest
//! ones are kept in the state directory before anybody sees them. Non-guarantee: a secret that comes
//! up again after a restart gets a new number, for what it was is kept nowhere; and two processes that
//! serve one session at the same time count by themselves.

use super::Held;
use crate::policy_store::PolicyInForce;
use crate::workspace::write_atomic;
use airlock_core::{Digest, SessionId};
use airlock_policy::Generation;
use airlock_sanitise::{Patterns, RefusedPattern, Sanitiser};
use std::collections::{BTreeMap, VecDeque};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the highest numbers of sessions are, below the state directory.
const NUMBERS: &str = "numbers";

/// The most sessions whose placeholders are remembered; the one not used for longest goes.
const MOST_SESSIONS: usize = 256;

/// The sanitisers of a kernel's sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    held: Arc<Held>,
    numbers: PathBuf,
}

/// A session's sanitiser, of what it was made, and which numbers of it are kept.
#[derive(Debug)]
struct Known {
    session: SessionId,
    sanitiser: Arc<Sanitiser>,
    of: (Generation, u64),
    kept: BTreeMap<String, u32>,
}

#[derive(Debug, Default)]
struct State {
    /// Of which policy the patterns are.
    patterns: Option<(Generation, Arc<Patterns>)>,
    /// The one used last is last.
    sessions: VecDeque<Known>,
}

impl Sessions {
    /// Sanitisers that take out what is held, besides what policy says. The highest numbers of
    /// sessions are kept below `state`.
    pub(crate) fn holding(held: &Arc<Held>, state: &Path) -> Self {
        Self {
            state: Mutex::default(),
            held: Arc::clone(held),
            numbers: state.join(NUMBERS),
        }
    }

    /// The sanitiser for results of `session`, with the patterns of `policy`.
    pub(crate) fn of(
        &self,
        session: Option<&SessionId>,
        policy: &PolicyInForce,
    ) -> Result<Arc<Sanitiser>, RefusedPattern> {
        let generation = policy.generation();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let patterns = state.patterns(generation, policy)?;
        let (version, values) = self.held.now();
        let generation = (generation, version);
        let Some(session) = session else {
            return Ok(Arc::new(Sanitiser::with(values, patterns)));
        };
        let place = state
            .sessions
            .iter()
            .position(|one| one.session == *session);
        let known = place.and_then(|place| state.sessions.remove(place));
        let mut known = known.unwrap_or_else(|| {
            let kept = self.kept(session);
            Known {
                session: session.clone(),
                sanitiser: Arc::new(
                    Sanitiser::with(Arc::clone(&values), Arc::clone(&patterns)).after(&kept),
                ),
                of: generation,
                kept,
            }
        });
        if known.of != generation {
            known.sanitiser = Arc::new(known.sanitiser.renewed(values, patterns));
            known.of = generation;
        }
        if state.sessions.len() >= MOST_SESSIONS {
            state.sessions.pop_front();
        }
        let sanitiser = Arc::clone(&known.sanitiser);
        state.sessions.push_back(known);
        Ok(sanitiser)
    }

    /// Keeps which numbers `session` has used, before anybody sees the last of them.
    pub(crate) fn keep(&self, session: &SessionId) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sessions = state.sessions.iter_mut();
        let Some(known) = sessions.find(|one| one.session == *session) else {
            return Ok(());
        };
        let highest = known.sanitiser.highest();
        if highest == known.kept {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.numbers)?;
        let text = serde_json::to_vec(&highest)?;
        write_atomic(&self.place(session), &text, 0o600)?;
        known.kept = highest;
        Ok(())
    }

    /// The highest numbers that `session` used in earlier processes; none where that was lost.
    fn kept(&self, session: &SessionId) -> BTreeMap<String, u32> {
        let text = std::fs::read(self.place(session)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn place(&self, session: &SessionId) -> PathBuf {
        // Whatever a session is called, this is a name for a file.
        self.numbers
            .join(Digest::of(session.as_str().as_bytes()).to_string())
    }
}

impl Sessions {
    /// What takes out of the log, and out of questions to people, what only `policy` and the settings
    /// of plugins tell to be a secret; none where they tell of nothing. Its numbers are its own: what
    /// a caller says must not tell it what others were shown.
    pub(crate) fn beside(&self, policy: &PolicyInForce) -> Option<Sanitiser> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Patterns that cannot be used let no result out.
        let patterns = state.patterns(policy.generation(), policy).ok()?;
        drop(state);
        let (version, values) = self.held.now();
        (version > 0 || !patterns.is_empty()).then(|| Sanitiser::with(values, patterns))
    }
}

impl State {
    fn patterns(
        &mut self,
        generation: Generation,
        policy: &PolicyInForce,
    ) -> Result<Arc<Patterns>, RefusedPattern> {
        if let Some((of, patterns)) = &self.patterns
            && *of == generation
        {
            return Ok(Arc::clone(patterns));
        }
        let mut patterns = Patterns::new();
        for own in &policy.policy().document().secrets.patterns {
            patterns.add(&own.name, &own.pattern)?;
        }
        let patterns = Arc::new(patterns);
        self.patterns = Some((generation, Arc::clone(&patterns)));
        Ok(patterns)
    }
}
