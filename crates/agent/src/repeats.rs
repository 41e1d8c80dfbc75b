//! Notices a call that fails again and again.

use std::collections::VecDeque;

/// How often the same call may fail.
const MOST: u32 = 3;
/// Failing calls that are remembered.
const REMEMBERED: usize = 64;

/// The calls that failed lately.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    failed: VecDeque<(String, u32)>,
}

impl Repeats {
    /// Takes note of how a call ended. Gives back how often it failed once that is too often.
    pub(crate) fn note(&mut self, name: &str, arguments: &str, worked: bool) -> Option<u32> {
        let key = format!("{name}\n{arguments}");
        let at = self.failed.iter().position(|(known, _)| *known == key);
        let before = at.and_then(|at| self.failed.remove(at));
        if worked {
            return None;
        }
        let times = before.map_or(0, |(_, times)| times) + 1;
        self.failed.push_back((key, times));
        if self.failed.len() > REMEMBERED {
            self.failed.pop_front();
        }
        (times >= MOST).then_some(times)
    }

    /// The person said something new: everything may be tried again.
    pub(crate) fn forget(&mut self) {
        self.failed.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_failure_of_the_same_call_is_one_too_many() {
        let mut repeats = Repeats::default();
        assert_eq!(repeats.note("a", "{}", false), None);
        assert_eq!(repeats.note("b", "{}", false), None);
        assert_eq!(repeats.note("a", "{}", false), None);
        assert_eq!(repeats.note("a", "{\"x\":1}", false), None);
        assert_eq!(repeats.note("a", "{}", false), Some(3));
        repeats.forget();
        assert_eq!(repeats.note("a", "{}", false), None);
    }

    #[test]
    fn a_success_begins_the_count_anew_and_memory_stays_small() {
        let mut repeats = Repeats::default();
        for _ in 0..10 {
            assert_eq!(repeats.note("a", "{}", false), None);
            assert_eq!(repeats.note("a", "{}", false), None);
            assert_eq!(repeats.note("a", "{}", true), None);
        }
        for n in 0..1_000 {
            repeats.note("a", &n.to_string(), false);
        }
        assert!(repeats.failed.len() <= REMEMBERED);
    }
}
