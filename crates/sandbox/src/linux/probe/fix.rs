//! The lines that mend something on this distribution. Pure.
//!
//! Every line can be pasted into a shell: what is not a command is a comment. A path becomes part
//! of a line only if it means the same to a shell and to AppArmor as it looks.

use super::settings::{Around, Family, Settings};

/// Writes a setting of the kernel down, and puts it in force.
fn setting(settings: &Settings, name: &str, value: u64) -> String {
    match settings.family {
        Family::Nixos => format!(
            "# in /etc/nixos/configuration.nix: boot.kernel.sysctl.\"{name}\" = {value};\n\
             sudo nixos-rebuild switch"
        ),
        Family::Debian
        | Family::Ubuntu
        | Family::Fedora
        | Family::Arch
        | Family::Alpine
        | Family::Suse
        | Family::Other => format!(
            "echo '{name} = {value}' | sudo tee -a /etc/sysctl.d/60-airlock.conf\n\
             sudo sysctl -p /etc/sysctl.d/60-airlock.conf"
        ),
    }
}

/// More than any machine uses, and what most distributions have.
const NAMESPACES: u64 = 15_000;

/// User namespaces for ordinary users.
pub(super) fn user_namespaces(settings: &Settings, program: &str) -> String {
    if settings.around == Around::Container {
        return CONTAINER.to_owned();
    }
    let mut lines = Vec::new();
    if settings.clone == Some(0) {
        lines.push(setting(settings, "kernel.unprivileged_userns_clone", 1));
    }
    if settings.most == Some(0) {
        lines.push(setting(settings, "user.max_user_namespaces", NAMESPACES));
    }
    if settings.apparmor == Some(1) {
        lines.push(profile(program));
    }
    if lines.is_empty() {
        lines.push("# boot a kernel with CONFIG_USER_NS=y".to_owned());
    }
    lines.join("\n")
}

/// What lets a container make namespaces of its own and mount `/proc` in them.
const CONTAINER: &str = "# start this container with: \
    --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
    --security-opt systempaths=unconfined";

/// Lets one program make user namespaces, and nothing else do it through it.
fn profile(program: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let named = program.starts_with('/') && program.chars().all(plain);
    let (before, program) = if named {
        ("", program)
    } else {
        (
            "# move Airlock's programs to /usr/local/bin: where they lie cannot stand in a profile\n",
            "/usr/local/bin/airlock-main",
        )
    };
    format!(
        "{before}printf 'abi <abi/4.0>,\\nprofile airlock {program} flags=(unconfined) {{ userns, }}\\n' \
         | sudo tee /etc/apparmor.d/airlock\n\
         sudo apparmor_parser -r /etc/apparmor.d/airlock"
    )
}

/// Other namespaces, which only something around the system takes away.
pub(super) fn namespaces(settings: &Settings) -> String {
    match settings.around {
        Around::Container => CONTAINER.to_owned(),
        Around::Nothing | Around::Wsl => {
            "# boot a kernel with CONFIG_NAMESPACES=y and all beneath it".to_owned()
        }
    }
}

/// `text` as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A `/proc` of its own, where a container hides parts of the outer one.
pub(super) fn proc(settings: &Settings) -> String {
    match settings.around {
        Around::Container => {
            "# start this container with: --security-opt systempaths=unconfined".to_owned()
        }
        Around::Nothing | Around::Wsl => {
            "# something is mounted over a part of /proc; unmount what this shows:\n\
             grep ' /proc/' /proc/self/mountinfo"
                .to_owned()
        }
    }
}

/// Overlays.
pub(super) fn overlay(settings: &Settings, root: bool) -> String {
    let module = "sudo modprobe overlay\necho overlay | sudo tee /etc/modules-load.d/overlay.conf";
    let place = "# or point XDG_STATE_HOME at ext4, xfs, btrfs or tmpfs";
    match (settings.around, root) {
        (Around::Container, _) => format!(
            "# start this container with a volume for Airlock's state: \
             --volume airlock-state:/state --env XDG_STATE_HOME=/state\n{place}"
        ),
        (Around::Nothing | Around::Wsl, true) => format!("{module}\n{place}"),
        (Around::Nothing | Around::Wsl, false) => {
            format!("{module}\n# ordinary users need Linux 5.11 or newer\n{place}")
        }
    }
}

/// Landlock, by the kernel's command line.
pub(super) fn landlock(settings: &Settings) -> String {
    let Some(modules) = &settings.modules else {
        return "# boot Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK=y".to_owned();
    };
    let known = |c: char| c.is_ascii_lowercase() || c == ',' || c == '_';
    let rest: String = modules.chars().filter(|c| known(*c)).collect();
    let argument = format!("lsm=landlock,{rest}");
    match (settings.around, settings.family) {
        (Around::Container, _) => "# the kernel is the host's: boot it with Landlock".to_owned(),
        (Around::Wsl, _) => format!(
            "# in Windows, in %UserProfile%\\.wslconfig under [wsl2]: kernelCommandLine = {argument}"
        ),
        (Around::Nothing, Family::Debian | Family::Ubuntu) => format!(
            "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{argument} /' /etc/default/grub\n\
             sudo update-grub\nsudo reboot"
        ),
        (Around::Nothing, Family::Fedora) => {
            format!("sudo grubby --update-kernel=ALL --args={argument}\nsudo reboot")
        }
        (Around::Nothing, Family::Nixos) => format!(
            "# in /etc/nixos/configuration.nix: boot.kernelParams = [ \"{argument}\" ];\n\
             sudo nixos-rebuild boot\nsudo reboot"
        ),
        (Around::Nothing, Family::Arch | Family::Alpine | Family::Suse | Family::Other) => {
            format!("# add to the kernel's command line in the boot loader, and reboot: {argument}")
        }
    }
}

/// A newer kernel.
pub(super) fn newer_kernel(settings: &Settings, version: &str) -> String {
    match (settings.around, settings.family) {
        (Around::Wsl, _) => "# in Windows: wsl --update".to_owned(),
        (Around::Container, _) => format!("# the kernel is the host's: Linux {version} or newer"),
        (Around::Nothing, Family::Debian | Family::Ubuntu) => {
            "sudo apt-get update && sudo apt-get full-upgrade\nsudo reboot".to_owned()
        }
        (Around::Nothing, Family::Fedora) => "sudo dnf upgrade\nsudo reboot".to_owned(),
        (Around::Nothing, Family::Arch) => "sudo pacman -Syu\nsudo reboot".to_owned(),
        (Around::Nothing, Family::Alpine) => "sudo apk upgrade\nsudo reboot".to_owned(),
        (Around::Nothing, Family::Suse) => "sudo zypper update\nsudo reboot".to_owned(),
        (Around::Nothing, Family::Nixos) => {
            "sudo nixos-rebuild boot --upgrade\nsudo reboot".to_owned()
        }
        (Around::Nothing, Family::Other) => format!("# boot Linux {version} or newer"),
    }
}

/// A cgroup of one's own.
pub(super) fn cgroups(settings: &Settings) -> String {
    match (settings.around, settings.cgroups, settings.systemd) {
        (Around::Container, ..) => {
            "# start this container with: --cgroupns=private --volume /sys/fs/cgroup:/sys/fs/cgroup:rw"
                .to_owned()
        }
        (_, Some(2), true) => "# for this shell alone, then start airlock from it:\n\
             systemd-run --user --scope -p Delegate=yes $SHELL\n\
             # for every login of this user:\n\
             sudo mkdir -p /etc/systemd/system/user@.service.d\n\
             printf '[Service]\\nDelegate=cpu memory pids\\n' | \
             sudo tee /etc/systemd/system/user@.service.d/delegate.conf\n\
             sudo systemctl daemon-reload\n\
             loginctl terminate-user $USER"
            .to_owned(),
        (_, Some(1), true) => "# version 1 gives ordinary users nothing; boot with version 2 by \
             adding to the kernel's command line: systemd.unified_cgroup_hierarchy=1"
            .to_owned(),
        (_, Some(_), _) => "sudo mkdir -p /sys/fs/cgroup/airlock\n\
             sudo chown -R $USER /sys/fs/cgroup/airlock\n\
             echo $$ | sudo tee /sys/fs/cgroup/airlock/cgroup.procs"
            .to_owned(),
        (_, None, _) => "sudo mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
    }
}

/// A package, by its name here.
pub(super) fn package(settings: &Settings, name: &str) -> String {
    match settings.family {
        Family::Debian | Family::Ubuntu => format!("sudo apt-get install {name}"),
        Family::Fedora => format!("sudo dnf install {name}"),
        Family::Arch => format!("sudo pacman -S {name}"),
        Family::Alpine => format!("sudo apk add {name}"),
        Family::Suse => format!("sudo zypper install {name}"),
        Family::Nixos => format!(
            "# in /etc/nixos/configuration.nix: environment.systemPackages = [ pkgs.{name} ];\n\
             sudo nixos-rebuild switch"
        ),
        Family::Other => format!("# install {name}"),
    }
}

/// Bubblewrap's own right to make user namespaces, where AppArmor gives it to few.
pub(super) fn bwrap_profile(settings: &Settings) -> String {
    let packages = package(settings, "apparmor-profiles");
    format!(
        "{packages}\n\
         sudo cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/\n\
         sudo apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
    )
}

/// An engine that is installed and does not answer.
pub(super) fn engine(name: &str) -> String {
    match name {
        "docker" => "sudo systemctl enable --now docker\n\
             # and, knowing that this is as much as root, let this user use it:\n\
             sudo usermod -aG docker $USER"
            .to_owned(),
        _ => "systemctl --user enable --now podman.socket".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_named_to_mislead_does_not_reach_a_profile() {
        for hostile in [
            "/home/x/a{,/**} flags=(complain) {",
            "/home/x/it's",
            "/home/x/$(reboot)",
            "/home/x/a b",
            "/home/x/**",
            "relative",
            "/a\nb",
            "/a%s",
            "/a\\n",
        ] {
            let lines = profile(hostile);
            assert!(!lines.contains(hostile), "{lines}");
            assert!(lines.contains(" /usr/local/bin/airlock-main "), "{lines}");
        }
        assert!(profile("/opt/air-lock_1.0/airlock").contains(" /opt/air-lock_1.0/airlock "));
    }
}
