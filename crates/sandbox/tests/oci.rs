//! The JSON that container engines read, as it is.

use airlock_sandbox::seccomp::{Architecture, Profile, oci};

#[test]
fn the_widest_profile_for_engines() {
    insta::assert_json_snapshot!(oci(Profile::StandardNet, Architecture::X86_64));
}

#[test]
fn the_other_architecture_lacks_the_old_calls() {
    insta::assert_json_snapshot!(oci(Profile::Standard, Architecture::Aarch64));
}
