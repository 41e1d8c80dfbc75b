//! Settings: a file of `key=value` lines, and variables, which win.
//!
//! Values are taken to the letter: there are no quotes, escapes or references in them. Only names
//! are checked here, and what would otherwise be read as something else further on.

use crate::problem::Problem;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every setting there is. The variable is `AIRLOCK_` and the name in capitals.
pub(crate) const KEYS: &str =
    "kernel workspace state socket engine image ping_every ping_timeout start_timeout";
/// Largest file of settings.
const FILE_BYTES: u64 = 64 * 1024;

/// What to start and how to ask it.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) kernel: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    /// Where the kernel answers; it says so itself if this is not set.
    pub(crate) socket: Option<PathBuf>,
    /// `none`, `auto`, a name or a path.
    pub(crate) engine: PathBuf,
    pub(crate) image: OsString,
    pub(crate) ping_every: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) start_timeout: Duration,
    /// Where programs are looked for.
    pub(crate) search: OsString,
}

impl Config {
    pub(crate) fn gather(
        file: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let file = file.or_else(|| variable("AIRLOCK_BOOTSTRAP_CONFIG").map(PathBuf::from));
        let values = file.map_or(Ok(BTreeMap::new()), |path| parse(&read(&path)?))?;
        let get = |key: &str| {
            let name = format!("AIRLOCK_{}", key.to_uppercase());
            variable(&name).or_else(|| values.get(key).cloned())
        };
        let bad = |key: &str, value: &OsStr, fix| {
            let value = value.to_string_lossy();
            Problem::config(format!("`{key}` cannot be `{value}`"), fix)
        };
        let path = |key: &str, default: PathBuf| {
            let value = get(key).map_or(default, PathBuf::from);
            std::path::absolute(&value).map_err(|_| bad(key, value.as_os_str(), "name a path"))
        };
        let seconds = |key: &str, default| {
            let Some(text) = get(key) else {
                return Ok(Duration::from_secs(default));
            };
            let number = text.to_str().and_then(|text| text.parse().ok());
            let number = number.filter(|seconds| (1..=3_600).contains(seconds));
            let number = number.map(Duration::from_secs);
            number.ok_or_else(|| bad(key, &text, "give whole seconds, 1 to 3600"))
        };
        let beside = std::env::current_exe().unwrap_or_default().with_file_name("airlock");
        let home = PathBuf::from(variable("HOME").unwrap_or_else(|| "/".into()));
        let state =
            variable("XDG_STATE_HOME").map_or_else(|| home.join(".local/state"), Into::into);
        Ok(Self {
            kernel: path("kernel", beside)?,
            workspace: path("workspace", PathBuf::from("."))?,
            state: path("state", state)?,
            socket: get("socket").map(PathBuf::from),
            engine: get("engine").unwrap_or_else(|| "none".into()).into(),
            image: get("image").unwrap_or_else(|| "airlock".into()),
            ping_every: seconds("ping_every", 5)?,
            ping_timeout: seconds("ping_timeout", 5)?,
            start_timeout: seconds("start_timeout", 30)?,
            search: variable("PATH").unwrap_or_default(),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let read = |file: std::fs::File| file.take(FILE_BYTES + 1).read_to_end(&mut bytes);
    let read = std::fs::File::open(path).and_then(read);
    let small = |length| {
        if length as u64 > FILE_BYTES { Err(io::Error::other("it is over 64 KiB")) } else { Ok(()) }
    };
    read.and_then(small).map_err(|error| {
        let what = format!("cannot read the settings in `{}`: {error}", path.display());
        Problem::config(what, "name a readable file of key=value lines")
    })?;
    Ok(bytes)
}

/// Reads `key=value` lines. A name that is unknown or given twice is refused: one of two would be
/// ignored, and nobody could tell which.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, OsString>, Problem> {
    let mut values = BTreeMap::new();
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let refuse = |what: &str| {
            let what = format!("line {} of the settings {what}", number + 1);
            Problem::config(what, "`airlock-bootstrap --help` lists the settings")
        };
        if line.contains(&0) {
            return Err(refuse("holds a NUL byte"));
        }
        let mut parts = line.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            return Err(refuse("has no `=`"));
        };
        let key = String::from_utf8_lossy(key).into_owned();
        if !KEYS.split(' ').any(|known| known == key) {
            return Err(refuse(&format!("names `{key}`, which is no setting")));
        }
        let before = values.insert(key.clone(), OsStr::from_bytes(value).to_owned());
        if before.is_some() {
            return Err(refuse(&format!("gives `{key}` again")));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(text: &str, variables: &[(&str, &str)]) -> Result<Config, Problem> {
        let name = format!(
            "airlock-bootstrap-{}-{:x}",
            std::process::id(),
            text.len() * 31 + variables.len()
        );
        let file = std::env::temp_dir().join(format!("{name}-{:?}", std::thread::current().id()));
        std::fs::write(&file, text).unwrap();
        let variables: BTreeMap<String, OsString> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
            .collect();
        let config = Config::gather(Some(file.clone()), &|name| variables.get(name).cloned());
        std::fs::remove_file(&file).unwrap();
        config
    }

    #[test]
    fn variables_win_over_the_file_and_the_file_over_defaults() {
        let config =
            gathered("# mine\r\nworkspace = /w\nping_every=7\n\n", &[("AIRLOCK_PING_EVERY", "9")])
                .unwrap();
        assert_eq!(config.workspace, Path::new("/w"));
        assert_eq!(config.ping_every, Duration::from_secs(9));
        assert_eq!(config.ping_timeout, Duration::from_secs(5));
        assert_eq!(config.engine, Path::new("none"));
        assert!(config.kernel.ends_with("airlock") && config.kernel.is_absolute());
    }

    #[test]
    fn values_are_taken_to_the_letter() {
        for odd in
            ["$(reboot)", "`id`; rm -rf /", "\"quoted\"", "a=b", "${HOME}", "--privileged", "ü"]
        {
            let config = gathered(&format!("kernel={odd}\nimage={odd}"), &[]).unwrap();
            assert_eq!(config.image, odd);
            assert!(config.kernel.ends_with(odd), "{}", config.kernel.display());
        }
    }

    #[test]
    fn odd_files_are_refused_with_their_line() {
        for (text, want) in [
            ("workspace=/w\nworkspace=/v", "line 2 of the settings gives `workspace` again"),
            ("no equals sign", "line 1 of the settings has no `=`"),
            ("\n=x", "line 2 of the settings names ``, which is no setting"),
            (
                "\u{feff}kernel=/a",
                "line 1 of the settings names `\u{feff}kernel`, which is no setting",
            ),
            (
                "export kernel=/a",
                "line 1 of the settings names `export kernel`, which is no setting",
            ),
            ("kernel=a\0b", "line 1 of the settings holds a NUL byte"),
            ("ping_every=0", "`ping_every` cannot be `0`"),
            ("ping_every=-1", "`ping_every` cannot be `-1`"),
            ("start_timeout=1e9", "`start_timeout` cannot be `1e9`"),
        ] {
            let problem = gathered(text, &[]).unwrap_err();
            assert_eq!((problem.what.as_str(), problem.exit), (want, 2), "{text:?}");
        }
        let large = "#".repeat(70_000);
        assert!(gathered(&large, &[]).unwrap_err().what.ends_with("it is over 64 KiB"));
        let missing = Config::gather(Some("/nowhere/at/all".into()), &|_| None).unwrap_err();
        assert_eq!(missing.code, "config");
    }
}
