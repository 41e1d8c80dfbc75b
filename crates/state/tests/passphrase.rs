//! The passphrase: set once, changed with the old one, kept as a digest.

use airlock_state::{PassphraseError, PassphraseFile};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_passphrase_is_checked_changed_and_never_kept() {
    let home = tempfile::tempdir().unwrap();
    let file = PassphraseFile::below(home.path());
    assert!(matches!(
        file.check("anything"),
        Err(PassphraseError::Unset)
    ));
    assert!(matches!(
        file.set(None, "short"),
        Err(PassphraseError::Length)
    ));
    file.set(None, "correct horse").unwrap();
    let kept = fs::read_to_string(home.path().join("airlock/passphrase")).unwrap();
    assert!(
        kept.starts_with("$argon2id$") && !kept.contains("horse"),
        "{kept}"
    );
    file.check("correct horse").unwrap();
    for wrong in ["", "correct hors", "correct horse ", &"x".repeat(10_000)] {
        assert!(
            matches!(file.check(wrong), Err(PassphraseError::Wrong)),
            "{wrong}"
        );
    }
    for old in [None, Some("wrong one")] {
        assert!(matches!(
            file.set(old, "battery staple"),
            Err(PassphraseError::Wrong)
        ));
    }
    file.set(Some("correct horse"), "battery staple").unwrap();
    file.check("battery staple").unwrap();
}

#[test]
fn a_file_that_others_can_touch_or_that_is_no_digest_does_not_count() {
    let home = tempfile::tempdir().unwrap();
    let file = PassphraseFile::below(home.path());
    file.set(None, "correct horse").unwrap();
    let path = home.path().join("airlock/passphrase");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    for mode in [0o604, 0o620, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(
            matches!(file.check("correct horse"), Err(PassphraseError::Loose(_))),
            "{mode:o}"
        );
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "plain text").unwrap();
    assert!(matches!(
        file.check("plain text"),
        Err(PassphraseError::Unreadable(_))
    ));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    assert!(matches!(file.check("x"), Err(PassphraseError::Io { .. })));
}
