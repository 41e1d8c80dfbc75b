//! What the machine says about itself. It explains failures and chooses the command that mends
//! them; nothing is concluded from it.

use super::machine::Machine;

/// Which commands mend something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Debian,
    Ubuntu,
    Fedora,
    Arch,
    Alpine,
    Suse,
    Nixos,
    Other,
}

/// Where the system itself runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    Nothing,
    Container,
    Wsl,
}

/// What is known of a machine to explain with.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) family: Family,
    pub(super) around: Around,
    /// `kernel.unprivileged_userns_clone`, where the kernel has it.
    pub(super) clone: Option<u64>,
    /// `user.max_user_namespaces`.
    pub(super) most: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`.
    pub(super) apparmor: Option<u64>,
    /// The security modules that are active, as the kernel lists them.
    pub(super) modules: Option<String>,
    /// The version of cgroups that is mounted, if one is.
    pub(super) cgroups: Option<u8>,
    pub(super) systemd: bool,
}

impl Settings {
    pub(super) fn of(machine: &dyn Machine) -> Self {
        let number = |path: &str| machine.text(path)?.trim().parse::<u64>().ok();
        let release = machine.text("/etc/os-release").unwrap_or_default();
        let kernel = machine.who().release.to_lowercase();
        let container = ["/.dockerenv", "/run/.containerenv"]
            .iter()
            .any(|path| machine.text(path).is_some());
        let around = if kernel.contains("microsoft") {
            Around::Wsl
        } else if container {
            Around::Container
        } else {
            Around::Nothing
        };
        let mounts = machine.text("/proc/self/mountinfo").unwrap_or_default();
        let mounted = |kind: &str| mounts.contains(&format!(" - {kind} "));
        let modules = machine.text("/sys/kernel/security/lsm");
        Self {
            family: family(&release),
            around,
            clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            most: number("/proc/sys/user/max_user_namespaces"),
            apparmor: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            modules: modules.map(|text| text.trim().to_owned()),
            // Both at once counts as the old one: the controllers are there.
            cgroups: match (mounted("cgroup"), mounted("cgroup2")) {
                (true, _) => Some(1),
                (false, true) => Some(2),
                (false, false) => None,
            },
            systemd: machine.text("/proc/1/comm").as_deref().map(str::trim) == Some("systemd"),
        }
    }
}

fn family(release: &str) -> Family {
    let value = |key: &str| {
        let lines = release.lines();
        let found = lines
            .filter_map(|line| line.split_once('='))
            .find(|(name, _)| *name == key);
        found.map_or("", |(_, value)| value.trim_matches(['"', '\'']))
    };
    let own = std::iter::once(value("ID"));
    let names: Vec<&str> = own.chain(value("ID_LIKE").split_whitespace()).collect();
    let known = |name: &&str| {
        Some(match *name {
            "ubuntu" => Family::Ubuntu,
            "debian" => Family::Debian,
            "fedora" | "rhel" | "centos" => Family::Fedora,
            "arch" => Family::Arch,
            "alpine" => Family::Alpine,
            "suse" | "opensuse" | "opensuse-tumbleweed" | "opensuse-leap" => Family::Suse,
            "nixos" => Family::Nixos,
            _ => return None,
        })
    };
    names.iter().find_map(known).unwrap_or(Family::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_is_known_by_its_name_or_its_relatives() {
        for (release, want) in [
            ("ID=debian\n", Family::Debian),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", Family::Ubuntu),
            (
                "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n",
                Family::Fedora,
            ),
            ("ID=manjaro\nID_LIKE=arch\n", Family::Arch),
            ("ID=alpine", Family::Alpine),
            ("ID='nixos'", Family::Nixos),
            ("NAME=debian\nVERSION=ID=arch", Family::Other),
            ("", Family::Other),
        ] {
            assert_eq!(family(release), want, "{release}");
        }
    }
}
