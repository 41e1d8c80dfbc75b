//! Who a process inside is, for programs that ask by uid.
//!
//! Programs look up the name and home of uid 1000: shells, git, ssh, and Java, which takes the home
//! from there and not from `HOME`. The host's own files would name a person of the machine, or
//! nobody, so that small ones take their place.

use crate::plan::HostPath;

/// Texts that take the place of files of the same name in `/etc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    /// `/etc/passwd`.
    pub passwd: String,
    /// `/etc/group`.
    pub group: String,
    /// `/etc/nsswitch.conf`: files only, no service outside is asked.
    pub nsswitch: String,
}

/// The files for a sandbox with this home inside.
///
/// A home that a line of `passwd` cannot say (with `:`, a line break or bytes that are no text) is
/// given as `/`.
pub fn identity_files(home: &HostPath) -> IdentityFiles {
    let said = home.as_os_str().to_str();
    let home = said
        .filter(|home| !home.contains(|c: char| c == ':' || c.is_control()))
        .unwrap_or("/");
    IdentityFiles {
        passwd: format!(
            "root:x:0:0:root:/:/bin/sh\n\
             airlock:x:1000:1000:airlock:{home}:/bin/sh\n\
             nobody:x:65534:65534:nobody:/:/bin/false\n"
        ),
        group: "root:x:0:\nairlock:x:1000:\nnogroup:x:65534:\n".to_owned(),
        nsswitch: "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
                   networks: files\nprotocols: files\nservices: files\nethers: files\nrpc: files\n"
            .to_owned(),
    }
}
