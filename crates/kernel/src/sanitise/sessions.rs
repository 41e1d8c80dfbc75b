//! A sanitiser for each session.

use super::Held;
use crate::policy_store::PolicyInForce;
use airlock_core::SessionId;
use airlock_policy::Generation;
use airlock_sanitise::{Patterns, RefusedPattern, Sanitiser};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most sessions whose placeholders are remembered; the one not used for longest goes.
const MOST_SESSIONS: usize = 256;

/// The sanitisers of a kernel's sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    held: Arc<Held>,
}

#[derive(Debug, Default)]
struct State {
    /// Of which policy the patterns are.
    patterns: Option<(Generation, Arc<Patterns>)>,
    /// The one used last is last.
    sessions: VecDeque<(SessionId, Arc<Sanitiser>, (Generation, u64))>,
}

impl Sessions {
    /// Sanitisers that take out what is held, besides what policy says.
    pub(crate) fn holding(held: &Arc<Held>) -> Self {
        Self {
            state: Mutex::default(),
            held: Arc::clone(held),
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
        let place = state.sessions.iter().position(|(id, ..)| id == session);
        let known = place.and_then(|place| state.sessions.remove(place));
        let sanitiser = match known {
            Some((_, sanitiser, of)) if of == generation => sanitiser,
            Some((_, sanitiser, _)) => Arc::new(sanitiser.renewed(values, patterns)),
            None => Arc::new(Sanitiser::with(values, patterns)),
        };
        if state.sessions.len() >= MOST_SESSIONS {
            state.sessions.pop_front();
        }
        let held = (session.clone(), Arc::clone(&sanitiser), generation);
        state.sessions.push_back(held);
        Ok(sanitiser)
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
