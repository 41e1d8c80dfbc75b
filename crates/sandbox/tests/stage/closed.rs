//! Files that are closed even to their owner: whoever keeps a stage as it was keeps them, too.

use super::support::{Bench, on_every_stage};
use airlock_sandbox::stage::{Aside, TreePath};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use serde_json::json;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Does something as a user would, to whom a mode says no: root reads everything.
fn as_a_user<T>(act: impl FnOnce() -> T) -> T {
    let all = capabilities(None).unwrap();
    let past_modes = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let few = CapabilitySets {
        effective: all.effective - past_modes,
        ..all
    };
    set_capabilities(None, few).unwrap();
    let done = act();
    set_capabilities(None, all).unwrap();
    done
}

fn closed() -> TreePath {
    Path::new("closed").into()
}

fn place(bench: &Bench) -> PathBuf {
    bench.upper().join("closed")
}

fn mode(bench: &Bench) -> u32 {
    let found = std::fs::metadata(place(bench)).unwrap();
    found.permissions().mode() & 0o7777
}

fn is_as_kept(bench: &Bench, aside: &Aside) -> bool {
    as_a_user(|| bench.stage.is_as_kept(&closed(), aside)).unwrap()
}

#[test]
fn what_is_closed_even_to_its_owner_is_kept_known_and_put_back() {
    on_every_stage("echo f >f", |bench| {
        bench.inside("echo secret >closed; chmod 0 closed");
        let unreadable = as_a_user(|| std::fs::read(place(&bench)));
        assert!(unreadable.is_err(), "without which this shows nothing");
        let aside = as_a_user(|| bench.stage.set_aside(&[closed()], json!("who"))).unwrap();
        assert_eq!(mode(&bench), 0);
        assert!(is_as_kept(&bench, &aside));
        assert_eq!(mode(&bench), 0);

        bench.inside("chmod 600 closed; echo public >closed; chmod 0 closed");
        assert!(!is_as_kept(&bench, &aside));
        let paths = BTreeSet::from([closed()]);
        as_a_user(|| {
            let back = bench.stage.put_back(&paths, &BTreeSet::new(), &aside, 100);
            assert_eq!(back.unwrap(), []);
        });
        assert!(is_as_kept(&bench, &aside));
        assert_eq!(mode(&bench), 0);
        let open = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place(&bench), open).unwrap();
        assert_eq!(std::fs::read(place(&bench)).unwrap(), b"secret\n");
    });
}
