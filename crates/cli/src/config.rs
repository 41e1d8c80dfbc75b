//! Settings of convenience, and where each value came from.
//!
//! Nothing here can widen what policy allows. Order, high to low: flags, `AIRLOCK_*` variables, the
//! workspace's trusted `.airlock/config.yaml`, the user's own file, defaults. Files are flat: one
//! `key: value` a line, but for the list of `models`, which only the user's own file may have: it
//! says where keys come from and where questions go.

use crate::failure::{Failure, Kind, cause};
use crate::place::{Place, variable};
use crate::reading::{self, ReadError};
use crate::writing::Making;
use airlock_core::{ByteSize, closest};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The largest file of settings.
const LONGEST: u64 = 1024 * 1024;

/// One setting: its name, default, what it is for, and what it may be.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
    accepts: &'static str,
    check: fn(&str) -> bool,
}

/// Every setting there is.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "color",
        default: "auto",
        about: "when to use colour",
        accepts: "auto, always or never",
        check: |value| ["auto", "always", "never"].contains(&value),
    },
    Setting {
        key: "output.max_tokens",
        default: "4000",
        about: "how much of a tool's result is shown at once",
        accepts: "a whole number from 100 to 100000",
        check: |value| {
            value
                .parse()
                .is_ok_and(|tokens: u32| (100..=100_000).contains(&tokens))
        },
    },
    Setting {
        key: "search.threads",
        default: "0",
        about: "threads a search may use; 0 for one a processor",
        accepts: "a whole number from 0 to 256",
        check: |value| value.parse().is_ok_and(|threads: u32| threads <= 256),
    },
    Setting {
        key: EXPERIMENTAL,
        default: "",
        about: "experimental adapters that are switched on",
        accepts: "ids of adapters with commas between them",
        check: |value| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-, ".contains(c);
            value.len() <= 1_000 && value.chars().all(plain)
        },
    },
    Setting {
        key: CERTIFICATES,
        default: "",
        about: "a file of authorities that requests of adapters trust besides the public ones",
        accepts: "the absolute path of a PEM file",
        check: |value| value.is_empty() || value.starts_with('/'),
    },
    Setting {
        key: FRAME_BYTES,
        default: "16MiB",
        about: "the longest message between a kernel and its clients",
        accepts: "a size from 64KiB to 64MiB",
        check: |value| frame_bytes(value).is_some(),
    },
    Setting {
        key: START,
        default: "repeated",
        about: "whether commands in quick succession start a kernel for those to come",
        accepts: "repeated or never",
        check: |value| ["repeated", "never"].contains(&value),
    },
    Setting {
        key: USERS,
        default: "",
        about: "other users of this machine whose agents may ask a kernel of yours",
        accepts: "at most 16 numbers of users with commas between them, as `id -u` prints them",
        check: |value| users(value).is_some(),
    },
];

const EXPERIMENTAL: &str = "adapters.experimental";
const CERTIFICATES: &str = "adapters.certificates";
/// Some forty times what all public authorities take.
const CERTIFICATE_BYTES: u64 = 8 * 1024 * 1024;
const FRAME_BYTES: &str = "kernel.frame_bytes";
const START: &str = "kernel.start";
const USERS: &str = "kernel.users";

/// What only the person's own configuration says: a workspace could switch on what it brought.
const OWN_ONLY: &[&str] = &[EXPERIMENTAL, CERTIFICATES, FRAME_BYTES, START, USERS];

/// Most users besides one's own.
const MOST_USERS: usize = 16;

fn frame_bytes(value: &str) -> Option<usize> {
    let size: ByteSize = value.parse().ok()?;
    let bytes = usize::try_from(size.as_bytes()).ok()?;
    airlock_service::FRAME_BYTES
        .contains(&bytes)
        .then_some(bytes)
}

fn users(value: &str) -> Option<Vec<u32>> {
    let words = value.split(',').map(str::trim);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let numbers = words.iter().map(|word| word.parse().ok());
    numbers
        .collect::<Option<Vec<u32>>>()
        .filter(|users| users.len() <= MOST_USERS)
}

/// Variables that are no settings: of the kernel, of the starter, of plugins and of tests.
const OTHER_VARIABLES: &[&str] = &[
    "AIRLOCK_BOOTSTRAP_CONFIG",
    "AIRLOCK_ENGINE",
    "AIRLOCK_IMAGE",
    "AIRLOCK_KERNEL",
    "AIRLOCK_MCP_TOKEN",
    "AIRLOCK_PING_EVERY",
    "AIRLOCK_PING_TIMEOUT",
    "AIRLOCK_PLUGIN",
    "AIRLOCK_SOCKET",
    "AIRLOCK_START_TIMEOUT",
    "AIRLOCK_STATE",
    "AIRLOCK_WORKSPACE",
];
const TEST_VARIABLES: &str = "AIRLOCK_TEST_";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag,
    Variable(String),
    Workspace,
    User(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Workspace => f.write_str(".airlock/config.yaml"),
            Self::User(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The values in force.
#[derive(Debug)]
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, Origin)>,
    /// The list of models as it stands in the user's own file.
    models: Option<String>,
}

impl Config {
    /// Gathers the layers. `workspace` is the trusted workspace file, if there is one.
    pub(crate) fn gather(
        place: &Place,
        workspace: Option<&[u8]>,
        color: Option<&str>,
    ) -> Result<Self, Unusable> {
        let user = place.user_config();
        let (user_values, models) = match reading::bytes(&user, LONGEST) {
            Ok(bytes) => parse(&bytes, &user.display().to_string())?,
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                (BTreeMap::new(), None)
            }
            Err(error) => {
                let what = format!("cannot read {}", user.display());
                let failure = Failure::new(Kind::Failed, what).why(error);
                return Err(failure.fix("make it readable, or move it away").into());
            }
        };
        let workspace_values = match workspace {
            Some(bytes) => workspace_values(bytes)?,
            None => BTreeMap::new(),
        };
        let mut values = BTreeMap::new();
        for setting in SETTINGS {
            let mut value = (setting.default.to_owned(), Origin::Default);
            if let Some(text) = user_values.get(setting.key) {
                value = (text.clone(), Origin::User(user.clone()));
            }
            let theirs = workspace_values.get(setting.key);
            if let Some(text) = theirs.filter(|_| is_a_workspaces(setting.key)) {
                value = (text.clone(), Origin::Workspace);
            }
            let name = variable_name(setting.key);
            if let Some(text) = variable(&name) {
                let text = text.to_string_lossy().into_owned();
                check(setting.key, &text, &format!("in ${name}"))?;
                value = (text, Origin::Variable(name));
            }
            if let Some(text) = color.filter(|_| setting.key == "color") {
                value = (text.to_owned(), Origin::Flag);
            }
            values.insert(setting.key, value);
        }
        Ok(Self { values, models })
    }

    /// The list of models in the user's own file, as YAML.
    pub(crate) fn models(&self) -> Option<&str> {
        self.models.as_deref()
    }

    /// Every setting with its value and origin, in order of name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str, &Origin)> {
        self.values
            .iter()
            .map(|(key, (value, origin))| (*key, value.as_str(), origin))
    }

    fn get(&self, key: &str) -> &str {
        self.values.get(key).map_or("", |(value, _)| value)
    }

    pub(crate) fn color(&self) -> &str {
        self.get("color")
    }

    /// The output bound in bytes, at the usual four bytes a token.
    pub(crate) fn output_bytes(&self) -> usize {
        self.get("output.max_tokens")
            .parse::<usize>()
            .unwrap_or(4_000)
            .saturating_mul(4)
    }

    /// The experimental adapters that are switched on.
    pub(crate) fn experimental(&self) -> std::collections::BTreeSet<String> {
        let ids = self.get(EXPERIMENTAL).split(',').map(str::trim);
        ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
    }

    /// The authorities that requests trust besides the public ones.
    pub(crate) fn certificates(&self) -> Result<String, Failure> {
        let path = self.get(CERTIFICATES);
        if path.is_empty() {
            return Ok(String::new());
        }
        reading::text(Path::new(path), CERTIFICATE_BYTES).map_err(|error| {
            Failure::new(
                Kind::Failed,
                format!("cannot read the certificates in `{path}`"),
            )
            .why(error)
            .fix("make it readable, or change it: `airlock config set adapters.certificates FILE`")
        })
    }

    /// The longest frame of a kernel's socket.
    pub(crate) fn frame_bytes(&self) -> usize {
        frame_bytes(self.get(FRAME_BYTES)).unwrap_or(airlock_service::DEFAULT_FRAME_BYTES)
    }

    /// The users who may use a kernel's socket, besides its own.
    pub(crate) fn users(&self) -> Vec<u32> {
        users(self.get(USERS)).unwrap_or_default()
    }

    /// Whether commands in quick succession start a kernel for those to come. Never one that would open
    /// its socket to other users, or go on with keys from the environment of the command that started it.
    pub(crate) fn starts_kernels(&self) -> bool {
        let has_keys = self.models().is_some_and(|models| models.contains("env"));
        self.get(START) == "repeated" && self.users().is_empty() && !has_keys
    }

    pub(crate) fn search_threads(&self) -> usize {
        self.get("search.threads").parse().unwrap_or(0)
    }
}

fn variable_name(key: &str) -> String {
    format!("AIRLOCK_{}", key.to_uppercase().replace('.', "_"))
}

/// Whether a variable of that name is nothing but a setting, or none of Airlock's at all.
pub(crate) fn is_plain_variable(name: &OsStr) -> bool {
    let own = name.as_encoded_bytes().starts_with(b"AIRLOCK_");
    let mut settings = SETTINGS.iter().map(|one| variable_name(one.key));
    !own || settings.any(|setting| name == setting.as_str())
}

/// What to say of each variable of `environment` that looks like a setting and is none.
pub(crate) fn strange_variables<'a>(environment: impl Iterator<Item = &'a OsStr>) -> Vec<String> {
    let settings: Vec<String> = SETTINGS.iter().map(|one| variable_name(one.key)).collect();
    let known = || {
        let settings = settings.iter().map(String::as_str);
        settings.chain(OTHER_VARIABLES.iter().copied())
    };
    let strange = environment.filter_map(|name| {
        let name = name.to_str().filter(|name| name.starts_with("AIRLOCK_"))?;
        if name.starts_with(TEST_VARIABLES) || known().any(|known| known == name) {
            return None;
        }
        let near = closest(name, known());
        let fix = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        Some(format!("${} is no setting{fix}", shorten(name)))
    });
    strange.collect()
}

/// How messages name what the person typed, as opposed to `in FILE:3`.
pub(crate) const ON_THE_COMMAND_LINE: &str = "on the command line";

/// Why settings cannot be used. It is put into words by whoever says it: what it quotes has to be
/// cleaned for that, which whoever does not say it has no use for.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// There is no setting of that name.
    Unknown { key: String, source: String },
    /// It has a value that it may not have.
    Value {
        setting: &'static Setting,
        value: String,
        source: String,
    },
    /// What keeps it from being read.
    File(Failure),
}

impl From<Failure> for Unusable {
    fn from(failure: Failure) -> Self {
        Self::File(failure)
    }
}

impl Unusable {
    pub(crate) fn failure(self) -> Failure {
        let (what, fix) = match self {
            Self::File(failure) => return failure,
            Self::Unknown { key, source } => {
                let near = closest(&key, SETTINGS.iter().map(|setting| setting.key));
                let fix = near.map_or_else(
                    || "`airlock config show` lists every setting".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                (format!("unknown setting `{}` {source}", shorten(&key)), fix)
            }
            Self::Value {
                setting: Setting { key, accepts, .. },
                value,
                source,
            } => {
                let value = shorten(&value);
                let what = format!("`{value}` is no value for `{key}` {source}");
                (what, format!("use {accepts}"))
            }
        };
        Failure::new(Kind::Usage, what).fix(fix)
    }
}

/// The setting called `key`.
pub(crate) fn setting(key: &str, source: &str) -> Result<&'static Setting, Unusable> {
    let mut settings = SETTINGS.iter();
    let found = settings.find(|setting| setting.key == key);
    found.ok_or_else(|| Unusable::Unknown {
        key: key.to_owned(),
        source: source.to_owned(),
    })
}

fn check(key: &str, value: &str, source: &str) -> Result<(), Unusable> {
    let setting = setting(key, source)?;
    if (setting.check)(value) {
        return Ok(());
    }
    Err(Unusable::Value {
        setting,
        value: value.to_owned(),
        source: source.to_owned(),
    })
}

fn shorten(text: &str) -> String {
    airlock_kernel::sanitise_line(text, 60)
}

/// What a workspace's own configuration sets.
pub(crate) fn workspace_values(bytes: &[u8]) -> Result<BTreeMap<String, String>, Unusable> {
    match parse(bytes, airlock_kernel::CONFIG_FILE)? {
        (values, None) => Ok(values),
        (_, Some(_)) => Err(not_a_workspaces().into()),
    }
}

/// Whether a workspace's value for `key` counts.
pub(crate) fn is_a_workspaces(key: &str) -> bool {
    !OWN_ONLY.contains(&key)
}

/// A workspace must not say where keys come from, nor whom they are sent to.
fn not_a_workspaces() -> Failure {
    let file = airlock_kernel::CONFIG_FILE;
    Failure::new(Kind::Usage, format!("{file} sets `models`"))
        .why("models have keys and addresses, which a workspace does not get to choose")
        .fix("move them to your own configuration; `airlock config path` says where it is")
}

/// Takes the block of `models` out of a file, and leaves empty lines in its place, so that the
/// others keep their numbers.
fn without_models(text: &str) -> (String, Option<String>) {
    let mut flat = String::new();
    let mut block: Option<String> = None;
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("models:") {
            inside = true;
        } else if !line.is_empty() && !line.starts_with([' ', '\t', '-', '#']) {
            inside = false;
        }
        if inside {
            let block = block.get_or_insert_default();
            block.push_str(line);
            block.push('\n');
        } else {
            flat.push_str(line);
        }
        flat.push('\n');
    }
    (flat, block)
}

type Parsed = (BTreeMap<String, String>, Option<String>);

fn parse(bytes: &[u8], source: &str) -> Result<Parsed, Unusable> {
    let invalid = |why: String| {
        Failure::new(Kind::Usage, format!("cannot read configuration {source}"))
            .why(why)
            .fix("write one `key: value` a line; `airlock config show` lists the keys")
    };
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    let (text, models) = without_models(text);
    let mut values = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| invalid(format!("line {} is not `key: value`", number + 1)))?;
        let value = value.split(" #").next().unwrap_or_default().trim();
        let value = value.trim_matches(|c| c == '"' || c == '\'');
        check(key.trim(), value, &format!("in {source}:{}", number + 1))?;
        if values
            .insert(key.trim().to_owned(), value.to_owned())
            .is_some()
        {
            let why = format!("line {} sets `{}` again", number + 1, key.trim());
            return Err(invalid(why).into());
        }
    }
    Ok((values, models))
}

/// Sets `key` in the user's file, leaving every other line as it is.
pub(crate) fn set(path: &Path, key: &str, value: &str) -> Result<(), Failure> {
    check(key, value, ON_THE_COMMAND_LINE).map_err(Unusable::failure)?;
    let failed = |error: io::Error| {
        Failure::new(Kind::Failed, format!("cannot write {}", path.display()))
            .why(cause(&error))
            .fix("make the directory writable, or set XDG_CONFIG_HOME to one that is")
    };
    let old = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    parse(old.as_bytes(), &path.display().to_string()).map_err(Unusable::failure)?;
    let line = format!("{key}: {value}");
    let is_key = |old: &str| {
        old.split_once(':')
            .is_some_and(|(name, _)| name.trim() == key)
    };
    let mut lines: Vec<&str> = old.lines().collect();
    match lines.iter_mut().find(|old| is_key(old)) {
        Some(old) => *old = &line,
        None => lines.push(&line),
    }
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory).map_err(failed)?;
    let text = format!("{}\n", lines.join("\n"));
    Making::of(path, text.as_bytes()).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_pass_their_own_checks() {
        for setting in SETTINGS {
            assert!((setting.check)(setting.default), "{}", setting.key);
        }
    }

    #[test]
    fn setting_a_value_keeps_comments_and_other_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("airlock/config.yaml");
        set(&path, "color", "never").unwrap();
        std::fs::write(&path, "# mine\ncolor: never\nsearch.threads: 2\n").unwrap();
        set(&path, "color", "always").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# mine\ncolor: always\nsearch.threads: 2\n");
    }

    #[test]
    fn the_list_of_models_stands_apart_and_stays_as_it_is() {
        let list = "models:\n  - name: a\n    provider: openai\n\n  # mine\n- name: b\n";
        let text = format!("color: never\n{list}search.threads: 2\n");
        let (values, models) = parse(text.as_bytes(), "test").unwrap();
        assert_eq!(values.len(), 2);
        assert_eq!(models.as_deref(), Some(list));
        let wrong = parse(format!("{list}colour: x\n").as_bytes(), "f").unwrap_err();
        let wrong = wrong.failure();
        assert!(wrong.what().contains("f:7"), "{}", wrong.what());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, &text).unwrap();
        set(&path, "color", "always").unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, text.replace("never", "always"));
    }

    #[test]
    fn a_variable_that_is_no_setting_is_told_with_the_one_that_was_meant() {
        let names = [
            "AIRLOCK_COLOR",
            "AIRLOCK_COLOUR",
            "AIRLOCK_SOCKET",
            "AIRLOCK_START_TIMEOUT",
            "AIRLOCK_TEST_X",
            "AIRLOCK_\u{1b}[2J",
            "PATH",
        ];
        let told = strange_variables(names.iter().map(OsStr::new));
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(
            told[0],
            "$AIRLOCK_COLOUR is no setting; did you mean `AIRLOCK_COLOR`?"
        );
        assert!(!told[1].contains('\u{1b}'), "{told:?}");
    }

    #[test]
    fn only_a_setting_is_a_plain_variable_of_airlocks() {
        for (name, want) in [
            ("PATH", true),
            ("AIRLOCK", true),
            ("AIRLOCK_COLOR", true),
            ("AIRLOCK_KERNEL_START", true),
            ("AIRLOCK_SOCKET", false),
            ("AIRLOCK_WORKSPACE", false),
            ("AIRLOCK_COLOUR", false),
            ("AIRLOCK_COLOR_", false),
        ] {
            assert_eq!(is_plain_variable(OsStr::new(name)), want, "{name}");
        }
    }

    #[test]
    fn unknown_keys_and_bad_values_are_errors() {
        for bad in [
            "colour: auto",
            "color: blue",
            "nonsense",
            "color: auto\ncolor: never",
        ] {
            assert!(parse(bad.as_bytes(), "test").is_err(), "{bad}");
        }
        assert!(parse(&[0xff], "test").is_err());
    }
}
