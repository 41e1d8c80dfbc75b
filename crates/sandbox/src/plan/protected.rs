//! Places no plan may grant: they lead out of every sandbox, or into Airlock itself.

use super::path::HostPath;
use std::ffi::OsStr;

/// What the caller knows about the machine that a plan must keep clear of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Airlock's own directories: state, configuration, keys, sockets.
    pub own: Vec<HostPath>,
    /// The person's home directory, for `~/` and the engine sockets in it.
    pub home: Option<HostPath>,
}

const PROCESSES: &str = "shows and steers other processes";
const SETTINGS: &str = "holds the kernel's settings";
const DEVICES: &str = "holds devices";
const SERVICES: &str = "holds sockets of container engines and system services";
const ENGINE: &str = "belongs to a container engine";
const PASSWORDS: &str = "holds password hashes";
const OWN: &str = "is Airlock's own";

/// Absolute places.
const PLACES: &[(&str, &str)] = &[
    ("/proc", PROCESSES),
    ("/sys", SETTINGS),
    ("/dev", DEVICES),
    ("/run", SERVICES),
    ("/var/run", SERVICES),
    ("/private/var/run", SERVICES),
    ("/etc/shadow", PASSWORDS),
    ("/etc/gshadow", PASSWORDS),
    ("/var/lib/docker", ENGINE),
    ("/var/lib/containerd", ENGINE),
    ("/var/lib/containers", ENGINE),
    ("/var/lib/kubelet", ENGINE),
];

/// Places beneath the home directory.
const AT_HOME: &[(&str, &str)] = &[
    (".docker", ENGINE),
    (".colima", ENGINE),
    (".lima", ENGINE),
    (".orbstack", ENGINE),
    (".rd", ENGINE),
    (".local/share/containers", ENGINE),
    (".local/share/docker", ENGINE),
];

/// Shared memory: a directory in it is as good as one in `/tmp`, though it lies among devices.
const SHARED_MEMORY: &str = "/dev/shm";

/// Whether `path` may be granted although a protected place holds it.
pub(super) fn is_excepted(path: &HostPath) -> bool {
    HostPath::new(SHARED_MEMORY).is_ok_and(|memory| memory.holds(path) && memory != *path)
}

impl Surroundings {
    /// Every protected place and why.
    pub(super) fn places(&self) -> Vec<(HostPath, &'static str)> {
        let fixed = PLACES
            .iter()
            .filter_map(|(path, reason)| Some((HostPath::new(path).ok()?, *reason)));
        let at_home = self.home.iter().flat_map(|home| {
            AT_HOME
                .iter()
                .map(|(path, reason)| (home.join(OsStr::new(path)), *reason))
        });
        let own = self.own.iter().map(|path| (path.clone(), OWN));
        own.chain(fixed).chain(at_home).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_a_path() {
        let home = HostPath::new("/home/u").unwrap();
        let own = HostPath::new("/home/u/.local/state/airlock").unwrap();
        let around = Surroundings {
            own: vec![own],
            home: Some(home),
        };
        assert_eq!(around.places().len(), PLACES.len() + AT_HOME.len() + 1);
        for (path, reason) in around.places() {
            assert_eq!(HostPath::new(path.as_os_str()), Ok(path));
            assert!(!reason.is_empty());
        }
    }
}
