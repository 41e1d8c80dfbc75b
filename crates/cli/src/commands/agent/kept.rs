//! What models cost lately, kept between commands, so that budgets of an hour and a day hold: looked
//! at before each question, and added to after it. Commands that ask at the same moment do not see
//! each other's question.
//!
//! A file that cannot be read or written does not stop the work: budgets then hold for this command
//! alone. It is in the state directory, which no sandbox reaches.

use crate::models::Ledgers;
use crate::place::Place;
use airlock_model::Ledger;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::PoisonError;

fn path(place: &Place) -> PathBuf {
    place.state_home.join("airlock/model-usage.json")
}

/// What was kept.
pub(crate) fn load(place: &Place) -> BTreeMap<String, Ledger> {
    let text = std::fs::read_to_string(path(place)).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Takes over what other commands spent meanwhile.
pub(crate) fn refresh(place: &Place, ledgers: &Ledgers) {
    let kept = load(place);
    for (name, ledger) in ledgers {
        let mut own = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.get(name) {
            own.join(kept);
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
        let mut kept = load(place);
        for (name, ledger) in ledgers {
            let own = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            kept.entry(name.clone()).or_default().join(&own);
        }
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.write_all(serde_json::to_string(&kept)?.as_bytes())?;
        file.persist(&path)?;
        Ok(())
    };
    // Without it budgets hold for this command alone.
    let _kept = write();
}
