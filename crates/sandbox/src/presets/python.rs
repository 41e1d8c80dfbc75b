//! Python: interpreters of pyenv, uv and conda, packages installed for the person, and the tools
//! among them.
//!
//! A virtual environment in the workspace works if its interpreter is one of these. The file that
//! names the interpreter is the workspace's, so it only ever chooses: it grants nothing.

use super::Content;
use super::gate::{Gate, above, is_system, names_in, real, setting, text};
use crate::looked;
use crate::plan::HostPath;
use std::ffi::OsStr;

/// Of an installation; `pip.conf` and `conda-meta` beside them may hold logins.
const INSTALLATION: [&str; 8] = [
    "bin",
    "lib",
    "lib64",
    "include",
    "share",
    "ssl",
    "libexec",
    "pyvenv.cfg",
];
/// Of pyenv itself, which its stand-ins start.
const PYENV: [&str; 7] = [
    "shims",
    "bin",
    "libexec",
    "pyenv.d",
    "version",
    "plugins/pyenv-virtualenv/bin",
    "plugins/pyenv-virtualenv/libexec",
];
/// Tools people install for themselves. Anything else in `~/.local/bin` is none of a sandbox's
/// business.
const TOOLS: [&str; 20] = [
    "pytest",
    "py.test",
    "tox",
    "nox",
    "coverage",
    "mypy",
    "pyright",
    "ruff",
    "black",
    "isort",
    "flake8",
    "pylint",
    "poetry",
    "pdm",
    "hatch",
    "pipenv",
    "uv",
    "uvx",
    "hypothesis",
    "pre-commit",
];
/// pip's settings inside. The variables of the same meaning never pass into a sandbox.
const QUIET: &str = "[global]\ndisable-pip-version-check = true\n";
const OFFLINE: &str = "no-index = true\n";
/// Environments looked at of one manager.
const ENVIRONMENTS: usize = 64;

pub(super) fn detect(gate: &mut Gate<'_>) {
    let mut any = false;
    if let Some(program) = gate.program("python3").filter(is_system) {
        gate.found("python3", &program, "PATH");
        any = true;
    }
    any |= pyenv(gate);
    any |= uv(gate);
    any |= conda(gate);
    any |= managed(gate);
    any |= personal(gate);
    if any {
        let offline = if gate.offline() { OFFLINE } else { "" };
        let settings = format!("{QUIET}{offline}");
        gate.put(".config/pip/pip.conf", Content::File(settings));
    }
    virtual_environments(gate);
}

fn pyenv(gate: &mut Gate<'_>) -> bool {
    let Some((root, how)) = gate.directory("PYENV_ROOT", &[".pyenv"]) else {
        return false;
    };
    let versions = root.join(OsStr::new("versions"));
    if !all_of(gate, &versions) {
        return false;
    }
    gate.found("pyenv", &root, how);
    for name in names_in(&versions) {
        all_of(gate, &versions.join(&name).join(OsStr::new("envs")));
    }
    gate.pieces(&root, &PYENV);
    gate.search(&root.join(OsStr::new("shims")));
    gate.search(&root.join(OsStr::new("bin")));
    gate.set("PYENV_ROOT", root.as_os_str());
    true
}

fn uv(gate: &mut Gate<'_>) -> bool {
    let variable = "UV_PYTHON_INSTALL_DIR";
    let Some((root, how)) = gate.directory(variable, &[".local/share/uv/python"]) else {
        return false;
    };
    let any = all_of(gate, &root);
    if any {
        gate.found("pythons of uv", &root, how);
    }
    any
}

fn managed(gate: &mut Gate<'_>) -> bool {
    let Some(home) = super::managers::chosen(gate, &["python"]) else {
        return false;
    };
    let any = is_installation(&home) && gate.pieces(&home, &INSTALLATION);
    if any {
        gate.found("python", &home, "version manager");
        gate.search(&home.join(OsStr::new("bin")));
    }
    any
}

fn conda(gate: &mut Gate<'_>) -> bool {
    const ROOTS: [&str; 6] = [
        "miniconda3",
        "anaconda3",
        "miniforge3",
        "mambaforge",
        "micromamba",
        ".local/share/mamba",
    ];
    let mut any = false;
    let active = gate.variable("CONDA_PREFIX").filter(is_installation);
    if let Some(active) = active.filter(|active| gate.pieces(active, &INSTALLATION)) {
        gate.found("conda environment", &active, "CONDA_PREFIX");
        gate.search(&active.join(OsStr::new("bin")));
        any = true;
    }
    for root in ROOTS {
        let Some(root) = gate.at_home(root) else {
            continue;
        };
        let base = is_installation(&root) && gate.pieces(&root, &INSTALLATION);
        let environments = all_of(gate, &root.join(OsStr::new("envs")));
        if base || environments {
            gate.found("conda", &root, "usual place");
            any = true;
        }
    }
    any
}

/// Grants every installation in a directory; whether there was one.
fn all_of(gate: &mut Gate<'_>, directory: &HostPath) -> bool {
    let mut any = false;
    for name in names_in(directory).into_iter().take(ENVIRONMENTS) {
        let home = directory.join(&name);
        any |= is_installation(&home) && gate.whole_or_pieces(&home, &INSTALLATION);
    }
    any
}

fn is_installation(home: &HostPath) -> bool {
    let has = |name: &str| home.as_path().join(name).symlink_metadata().is_ok();
    (has("bin/python3") || has("bin/python")) && has("lib")
}

/// Packages and tools the person installed for themselves.
fn personal(gate: &mut Gate<'_>) -> bool {
    let mut any = false;
    if let Some(library) = gate.at_home(".local/lib") {
        for name in names_in(&library) {
            let directory = library.join(&name);
            if name.as_encoded_bytes().starts_with(b"python") && gate.grant(&directory) {
                gate.found("packages", &directory, "usual place");
                let at = std::path::Path::new(".local/lib").join(&name);
                gate.put(at, Content::Link(directory));
                any = true;
            }
        }
    }
    let Some(programs) = gate.at_home(".local/bin") else {
        return any;
    };
    for name in TOOLS {
        let program = programs.join(OsStr::new(name));
        if looked::is_file(program.as_path()) && tool(gate, &program) {
            gate.found("tool", &program, "usual place");
            gate.search(&programs);
            any = true;
        }
    }
    any
}

/// Grants a tool, and the environment pipx or uv gave it.
fn tool(gate: &mut Gate<'_>, program: &HostPath) -> bool {
    let environments = [
        ".local/share/pipx/venvs",
        ".local/pipx/venvs",
        ".local/share/uv/tools",
    ];
    let own = real(program).and_then(|target| above(&target, 2));
    let own = own.filter(|own| {
        let parent = own.parent();
        let known = environments.iter().filter_map(|known| gate.at_home(known));
        known
            .filter_map(|known| real(&known))
            .any(|known| parent.as_ref() == Some(&known))
    });
    if let Some(own) = own {
        gate.pieces(&own, &INSTALLATION);
    }
    gate.grant(program)
}

/// Says which environments of the workspace will not work, and why.
fn virtual_environments(gate: &mut Gate<'_>) {
    for name in [".venv", "venv", "env", ".env"] {
        let environment = gate.workspace().join(OsStr::new(name));
        let Some(settings) = text(&environment.as_path().join("pyvenv.cfg")) else {
            continue;
        };
        let Some(home) = setting(&settings, "home").and_then(|home| HostPath::new(home).ok())
        else {
            gate.note(format!("`{environment}` names no interpreter"));
            continue;
        };
        if gate.sees(&home) {
            gate.found("virtual environment", &environment, "workspace");
        } else {
            gate.note(format!(
                "`{environment}` has its interpreter in `{home}`, where no toolchain was found: \
                 grant it in the manifest if it is to be used"
            ));
        }
    }
}
