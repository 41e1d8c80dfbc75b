//! `escape`: the escape suite as whoever calls, and as an ordinary user as well if that is root.
//!
//! With `--table` it runs against every launcher and prints one table of all results.

use crate::shell::{
    Failure, cargo, command, environment, output, root, run as run_command, say, shown, unstarted,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A user nobody has: above what systems hand out to people, below what they keep for services.
const NOBODY: &str = "58213";

const LAUNCHERS: &[&str] = &["native", "bwrap"];

const PROGRAMS: &[&str] = &["airlock-escape", "airlock-probe"];

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    run_command(&mut cargo(&[
        "build",
        "--quiet",
        "--package",
        "airlock-escape",
    ]))?;
    if arguments.iter().any(|word| word == "--table") {
        return table(arguments);
    }
    if !is_root() {
        let program = built().join("airlock-escape");
        return run_command(command(program).args(arguments));
    }
    say("as root:");
    let as_root = run_command(command(built().join("airlock-escape")).args(arguments));
    say("\nas an ordinary user:");
    let place = Place::make()?;
    let as_user = run_command(command("setpriv").args(user_line(&place.0, arguments)));
    as_root.and(as_user)
}

/// Every launcher as everyone there is, in one table.
fn table(arguments: &[String]) -> Result<(), Failure> {
    if arguments.len() > 1 {
        return Err(Failure::usage("`--table` stands alone"));
    }
    let place = Place::make()?;
    let mut columns = Vec::new();
    for launcher in LAUNCHERS {
        let words = ["--launcher", launcher, "--json"].map(str::to_owned);
        let as_user = if is_root() {
            let as_root = result(command(built().join("airlock-escape")).args(&words))?;
            columns.push(place.column(launcher, "root", &as_root)?);
            result(command("setpriv").args(user_line(&place.0, &words)))?
        } else {
            result(command(built().join("airlock-escape")).args(&words))?
        };
        columns.push(place.column(launcher, "user", &as_user)?);
    }
    run_command(
        command(built().join("airlock-escape"))
            .arg("table")
            .args(columns),
    )
}

/// What a run wrote; also one in which a row failed, which the table then shows.
fn result(command: &mut Command) -> Result<String, Failure> {
    let ended = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| unstarted(command, &error))?;
    match ended.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&ended.stdout).into_owned()),
        _ => Err(Failure::new(format!(
            "`{}`: {}",
            shown(command),
            ended.status
        ))),
    }
}

fn is_root() -> bool {
    output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Where cargo puts programs.
fn built() -> PathBuf {
    let target =
        environment("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("debug")
}

/// Copies of the programs where anyone can run them: root's build may lie where only root looks.
struct Place(PathBuf);

impl Place {
    fn make() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("airlock-escape-{}", std::process::id()));
        let failed = |error| Failure::new(format!("cannot use `{}`: {error}", path.display()));
        fs::create_dir(&path).map_err(failed)?;
        let place = Self(path.clone());
        for program in PROGRAMS {
            fs::copy(built().join(program), path.join(program)).map_err(failed)?;
        }
        run_command(command("chmod").args(["-R", "a+rX"]).arg(&path))?;
        Ok(place)
    }

    /// Keeps a result for the column of `launcher` as `who`.
    fn column(&self, launcher: &str, who: &str, result: &str) -> Result<String, Failure> {
        let path = self.0.join(format!("{launcher}-{who}.json"));
        let failed = |error| Failure::new(format!("cannot write `{}`: {error}", path.display()));
        fs::write(&path, result).map_err(failed)?;
        Ok(format!("{launcher}, {who}={}", path.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The arguments for `setpriv`, with nothing of root's environment.
fn user_line(place: &Path, arguments: &[String]) -> Vec<String> {
    let mut line: Vec<String> = [
        &format!("--reuid={NOBODY}"),
        &format!("--regid={NOBODY}"),
        "--clear-groups",
        "env",
        "-i",
        "PATH=/usr/local/bin:/usr/bin:/bin",
        "HOME=/nonexistent",
    ]
    .map(str::to_owned)
    .into();
    line.push(place.join("airlock-escape").to_string_lossy().into_owned());
    line.extend_from_slice(arguments);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_user_gets_none_of_roots_environment_or_groups() {
        let line = user_line(
            Path::new("/tmp/x"),
            &["--only".to_owned(), "tcp".to_owned()],
        )
        .join(" ");
        assert!(line.contains("--clear-groups env -i "), "{line}");
        assert!(
            line.ends_with("HOME=/nonexistent /tmp/x/airlock-escape --only tcp"),
            "{line}"
        );
        assert!(!line.contains("--reuid=0"), "{line}");
    }
}
