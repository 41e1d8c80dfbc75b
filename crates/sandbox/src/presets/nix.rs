//! Programs of a profile in the Nix or Guix store, under their names in the store: the profile's
//! links lie in places a sandbox does not see.

use super::gate::{Gate, real};

pub(super) fn detect(gate: &mut Gate<'_>) {
    for entry in gate.path_entries() {
        let stored = real(&entry).filter(|real| {
            ["/nix/store", "/gnu/store"]
                .iter()
                .any(|store| real.as_path().starts_with(store))
        });
        if let Some(stored) = stored {
            gate.found("profile", &stored, "PATH");
            gate.search(&stored);
        }
    }
}
