//! What models cost lately, kept between commands, so that budgets of an hour and a day hold: looked
//! at before each question, and added to after it. Commands that ask at the same moment do not see
//! each other's question.
//!
//! A file that cannot be read or written does not stop the work: budgets then hold for this command
//! alone. It is in the state directory, which no sandbox reaches.

use crate::models::Ledgers;
use crate::place::Place;
use airlock_model::{Clock, Ledger};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

fn path(place: &Place) -> PathBuf {
    place.state_home.join("airlock/model-usage.json")
}

/// What was kept.
pub(crate) fn load(place: &Place) -> BTreeMap<String, Ledger> {
    let text = std::fs::read_to_string(path(place)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// All of them at once: what is read of the file fits them until they are let go.
fn held(ledgers: &Ledgers) -> Vec<(&String, MutexGuard<'_, Ledger>)> {
    let held = ledgers.iter().map(|(name, ledger)| {
        let own = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        (name, own)
    });
    held.collect()
}

/// Takes over what other commands spent meanwhile.
pub(crate) fn refresh(place: &Place, ledgers: &Ledgers) {
    let own = held(ledgers);
    let kept = load(place);
    for (name, mut own) in own {
        if let Some(kept) = kept.get(name) {
            own.take_over(kept);
        }
    }
}

/// Adds what this command spent to what is kept.
pub(crate) fn store(place: &Place, ledgers: &Ledgers) {
    let path = path(place);
    let Some(directory) = path.parent().filter(|_| !ledgers.is_empty()) else {
        return;
    };
    let write = || -> std::io::Result<()> {
        let lock = File::create(directory.join("model-usage.lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let now = Clock::system().now();
        let own = held(ledgers);
        let mut kept = load(place);
        for (name, own) in &own {
            // Where the file is gone, what was read of it before is not.
            let kept = kept.entry((*name).clone());
            own.keep_in(kept.or_insert_with(|| Ledger::clone(own)), now);
        }
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(serde_json::to_string(&kept)?.as_bytes())?;
        file.persist(&path)?;
        for (name, mut own) in own {
            if let Some(kept) = kept.get(name) {
                own.written_to(kept);
            }
        }
        Ok(())
    };
    // Without it budgets hold for this command alone.
    let _kept = write();
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_model::{Budget, Spending};
    use std::sync::{Arc, Mutex};

    #[test]
    fn two_commands_that_take_turns_count_each_question_once() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("airlock")).unwrap();
        let place = Place {
            workspace: home.path().to_owned(),
            state_home: home.path().to_owned(),
            config_home: home.path().to_owned(),
        };
        let command = || -> Ledgers {
            let ledger = Arc::new(Mutex::new(Ledger::default()));
            Ledgers::from([("large".to_owned(), ledger)])
        };
        let now = Clock::system().now();
        let both = [command(), command()];
        let one = Spending {
            tokens: 1,
            cost_micros: 0,
        };
        for _ in 0..4 {
            for ledgers in &both {
                refresh(&place, ledgers);
                {
                    // Questions of one moment that cost the same are two all the same.
                    let mut ledger = ledgers["large"].lock().unwrap();
                    for _ in 0..2 {
                        let asked = ledger.reserve(&Budget::default(), one, now).unwrap();
                        ledger.settle(&asked, one, now);
                    }
                }
                store(&place, ledgers);
                store(&place, ledgers);
            }
        }
        assert_eq!(load(&place)["large"].day(now).tokens, 16);
        // Whoever damages the file does not make what a command knows of cheaper.
        std::fs::write(path(&place), "{").unwrap();
        store(&place, &both[1]);
        assert_eq!(load(&place)["large"].day(now).tokens, 16);
    }
}
