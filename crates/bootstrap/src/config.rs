//! Settings: a file of `key=value` lines, and variables, which win.
//!
//! Values are taken to the letter: there are no quotes, escapes or references in them. Only names
//! are checked here, and what would otherwise be read as something else further on.

use crate::{Problem, engine};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every setting there is. The variable is `AIRLOCK_` and the name in capitals.
pub(crate) const KEYS: &str =
    "kernel workspace state socket engine image ping_every ping_timeout start_timeout";
pub(crate) const HELP: &str = "`airlock-bootstrap --help` says what there is";
const FILE_BYTES: u64 = 64 * 1024; // The largest file of settings.

/// What to start and how to ask it.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) kernel: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) state_is_set: bool, // If not, a plain kernel finds it by itself.
    pub(crate) socket: Option<PathBuf>, // If there is none, the kernel says where it answers.
    pub(crate) engine: Option<PathBuf>, // If there is none, the kernel is a plain process.
    pub(crate) image: OsString,
    pub(crate) ping_every: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) start_timeout: Duration,
}

pub(crate) fn gather(
    file: Option<PathBuf>,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Config, Problem> {
    let file = file.or_else(|| variable("AIRLOCK_BOOTSTRAP_CONFIG").map(PathBuf::from));
    let values = file.map_or(Ok(BTreeMap::new()), |path| parse(&read(&path)?))?;
    let get = |key: &str| {
        let name = format!("AIRLOCK_{}", key.to_uppercase());
        variable(&name).or_else(|| values.get(key).cloned())
    };
    let bad = |key: &str, value: &OsStr, fix| {
        Problem::config(format!("`{key}` cannot be `{}`", value.display()), fix)
    };
    let path = |key: &str, default: PathBuf| {
        let value = get(key).map_or(default, PathBuf::from);
        std::path::absolute(&value).map_err(|_| bad(key, value.as_os_str(), "name a path"))
    };
    let seconds = |key: &str, default: &str| {
        let text = get(key).unwrap_or_else(|| default.into());
        let number = text.to_str().and_then(|text| text.parse().ok());
        let number = number.filter(|number| (1..=3_600).contains(number)).map(Duration::from_secs);
        number.ok_or_else(|| bad(key, &text, "give whole seconds, 1 to 3600"))
    };
    let beside = std::env::current_exe().unwrap_or_default().with_file_name("airlock");
    let home = PathBuf::from(variable("HOME").unwrap_or_else(|| "/".into()));
    // The kernel does not follow a relative one either.
    let state = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let engine = PathBuf::from(get("engine").unwrap_or_else(|| "none".into()));
    Ok(Config {
        kernel: path("kernel", beside)?,
        workspace: path("workspace", ".".into())?,
        state: path("state", state.unwrap_or_else(|| home.join(".local/state")))?,
        state_is_set: get("state").is_some(),
        socket: get("socket").map(|named| path("socket", named.into())).transpose()?,
        engine: engine::find(&engine, &variable("PATH").unwrap_or_default())?,
        image: get("image").unwrap_or_else(|| "airlock".into()),
        ping_every: seconds("ping_every", "5")?,
        ping_timeout: seconds("ping_timeout", "5")?,
        start_timeout: seconds("start_timeout", "30")?,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    // Whatever else can be opened may keep whoever opens it waiting for ever.
    let found = std::fs::metadata(path).and_then(|found| {
        let other = || std::io::Error::other("it is not a file");
        found.is_file().then_some(()).ok_or_else(other)
    });
    let opened = found.and_then(|()| std::fs::File::open(path));
    let why = match opened.and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes)) {
        Ok(length) if length as u64 <= FILE_BYTES => return Ok(bytes),
        Ok(_) => "it is over 64 KiB".to_owned(),
        Err(error) => error.to_string(),
    };
    let what = format!("cannot read the settings in `{}`: {why}", path.display());
    Err(Problem::config(what, "name a readable file of key=value lines"))
}

/// Refuses a name that is unknown or given twice: of two, nobody could tell which is ignored.
fn parse(bytes: &[u8]) -> Result<BTreeMap<String, OsString>, Problem> {
    let mut values = BTreeMap::new();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii)) {
        let mut parts = line.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
        let key = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let is_known = KEYS.split(' ').any(|known| known == key);
        let wrong = match parts.next() {
            _ if line.is_empty() || line.starts_with(b"#") => continue,
            _ if line.contains(&0) => "holds a NUL byte".to_owned(),
            None => "has no `=`".to_owned(),
            Some(_) if !is_known => format!("names `{key}`, which is no setting"),
            Some(value) => match values.insert(key.clone(), OsStr::from_bytes(value).to_owned()) {
                Some(_) => format!("gives `{key}` again"),
                None => continue,
            },
        };
        return Err(Problem::config(format!("line {number} of the settings {wrong}"), HELP));
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
        let config = gather(Some(file.clone()), &|name| variables.get(name).cloned());
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
        assert_eq!(config.engine, None);
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
    fn every_path_is_made_absolute() {
        let config = gathered("kernel=k\nworkspace=w\nstate=s\nsocket=run/s", &[]).unwrap();
        let here = std::path::absolute(".").unwrap();
        let paths = [config.kernel, config.workspace, config.state, config.socket.unwrap()];
        assert_eq!(paths, ["k", "w", "s", "run/s"].map(|name| here.join(name)));
    }

    #[test]
    fn state_is_where_the_kernel_finds_it_unless_a_setting_says_otherwise() {
        for (text, inherited, want, is_set) in [
            ("", "/x", "/x", false),
            ("", "", "/h/.local/state", false),
            ("", "x", "/h/.local/state", false),
            ("state=/s", "/x", "/s", true),
        ] {
            let config = gathered(text, &[("HOME", "/h"), ("XDG_STATE_HOME", inherited)]).unwrap();
            assert_eq!(config.state, Path::new(want), "{text:?}, {inherited:?}");
            assert_eq!(config.state_is_set, is_set, "{text:?}");
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
        for (path, why) in [("/nowhere/at/all", "No such file"), ("/dev/null", "it is not a file")]
        {
            let problem = gather(Some(path.into()), &|_| None).unwrap_err();
            assert_eq!(problem.code, "config");
            assert!(problem.what.contains(why), "{}", problem.what);
        }
    }
}
