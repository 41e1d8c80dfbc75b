//! Interpreters: which of their arguments are code, by how they read their options.
//!
//! An option that is not listed leaves untold what follows it.

use super::exposed::Word;
use super::shells::{may_be_device, plain};

/// What the first word is that is no option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum First {
    /// A file with the code.
    Script,
    /// The code.
    Code,
}

/// How an interpreter is written. Letters stand for options of one letter.
pub(super) struct Interpreter {
    names: &'static [&'static str],
    first: First,
    /// Words before the first one, and what that is after them.
    verbs: &'static [(&'static str, First)],
    /// Letters that take nothing.
    flags: &'static str,
    /// Letters that take code, or a file with it.
    code: &'static str,
    /// The same, and what follows is for the code.
    last: &'static str,
    /// Letters that take what leads to code: directories, modules.
    own: &'static str,
    /// Letters that take a value.
    data: &'static str,
    /// Letters that take the rest of their word.
    glued: &'static str,
    long_flags: &'static [&'static str],
    long_code: &'static [&'static str],
    long_own: &'static [&'static str],
}

const PLAIN: Interpreter = Interpreter {
    names: &[],
    first: First::Script,
    verbs: &[],
    flags: "",
    code: "",
    last: "",
    own: "",
    data: "",
    glued: "",
    long_flags: &["help", "version"],
    long_code: &[],
    long_own: &[],
};

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        names: &["python", "pypy"],
        flags: "bBdEhiIOPqRsSuvVx",
        last: "cm",
        data: "WX",
        ..PLAIN
    },
    Interpreter {
        names: &["perl"],
        flags: "acflnpstuvwSTUWX123456789",
        code: "eE",
        own: "I",
        glued: "0CDFMVdimx",
        ..PLAIN
    },
    Interpreter {
        names: &["ruby"],
        flags: "acdhlnpsSUvwy",
        code: "e",
        own: "rIC",
        data: "E",
        glued: "0FiKTWx",
        long_flags: &["help", "version", "yjit", "jit", "verbose"],
        ..PLAIN
    },
    Interpreter {
        names: &["node", "nodejs"],
        flags: "cihv",
        code: "ep",
        own: "rC",
        long_flags: &[
            "help",
            "version",
            "check",
            "test",
            "watch",
            "no-warnings",
            "enable-source-maps",
            "experimental-strip-types",
        ],
        long_code: &["eval", "print"],
        long_own: &["require", "import", "loader", "conditions", "env-file"],
        ..PLAIN
    },
    Interpreter {
        names: &["bun"],
        verbs: &[
            ("run", First::Script),
            ("x", First::Script),
            ("exec", First::Code),
        ],
        flags: "hvb",
        code: "ep",
        own: "r",
        long_flags: &["help", "version", "watch", "hot", "bun", "silent"],
        long_code: &["eval", "print"],
        long_own: &["preload", "require", "import", "cwd", "config", "env-file"],
        ..PLAIN
    },
    Interpreter {
        names: &["deno"],
        verbs: &[
            ("eval", First::Code),
            ("run", First::Script),
            ("test", First::Script),
        ],
        flags: "hVqAp",
        own: "c",
        long_flags: &[
            "help",
            "version",
            "quiet",
            "print",
            "allow-all",
            "allow-read",
            "allow-write",
            "allow-net",
            "allow-env",
            "allow-run",
            "no-check",
            "no-remote",
            "cached-only",
        ],
        long_own: &["config", "import-map", "lock", "ext"],
        ..PLAIN
    },
    Interpreter {
        names: &["php"],
        flags: "aehHilmnqsvwC",
        code: "rBREfF",
        own: "cdztS",
        long_code: &["run", "file"],
        ..PLAIN
    },
    Interpreter {
        names: &["lua", "luajit"],
        flags: "Eiv",
        code: "e",
        own: "l",
        ..PLAIN
    },
    Interpreter {
        names: &["julia"],
        flags: "hiqv",
        code: "eE",
        own: "JL",
        data: "Opt",
        long_code: &["eval", "print", "load"],
        long_own: &["project", "sysimage"],
        ..PLAIN
    },
    Interpreter {
        names: &["Rscript"],
        code: "e",
        long_flags: &[
            "help",
            "version",
            "vanilla",
            "no-save",
            "no-restore",
            "slave",
        ],
        ..PLAIN
    },
    Interpreter {
        names: &["awk", "gawk", "mawk", "nawk", "original-awk"],
        first: First::Code,
        flags: "bcgknNOPrStV",
        code: "efE",
        own: "il",
        data: "Fv",
        long_flags: &["help", "version", "posix", "re-interval", "sandbox", "csv"],
        long_code: &["source", "file", "exec"],
        long_own: &["include", "load"],
        ..PLAIN
    },
    Interpreter {
        names: &["sed", "gsed"],
        first: First::Code,
        flags: "bEnrsuz",
        code: "ef",
        data: "l",
        glued: "i",
        long_flags: &[
            "help",
            "version",
            "quiet",
            "silent",
            "regexp-extended",
            "null-data",
            "separate",
            "unbuffered",
            "in-place",
            "posix",
            "sandbox",
        ],
        long_code: &["expression", "file"],
        ..PLAIN
    },
];

/// The interpreter of that name, of whatever version.
pub(super) fn of(name: &str) -> Option<&'static Interpreter> {
    let name = plain(name);
    INTERPRETERS
        .iter()
        .find(|interpreter| interpreter.names.contains(&name))
}

/// What an interpreter makes of its words.
pub(super) enum Taken<'a> {
    /// No value is code.
    Harmless,
    /// The value at that place is.
    Code { at: usize },
    /// What follows an option that is not known cannot be told.
    Untold { at: usize, option: &'a str },
    /// It reads its code; the place is behind its last word, or that of the word which says so.
    Input { at: usize },
}

/// What an option is.
enum Reading {
    /// Whole by itself.
    Whole,
    /// One that has code in it.
    Given(Rest),
    /// One whose value is the next word.
    Takes(Kind),
    /// None that is known.
    Unknown,
}

/// What the value of an option is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code(Rest),
    Own,
    Data,
}

/// What stands after code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// More options.
    Options,
    /// Arguments of the code.
    Arguments,
}

impl Interpreter {
    /// What it makes of `words`.
    pub(super) fn take<'a>(&self, words: &[Word<'a>]) -> Taken<'a> {
        let (mut first, mut verbs) = (self.first, self.verbs);
        let (mut options, mut given, mut at) = (true, false, 0);
        while let Some(word) = words.get(at).copied() {
            let text = match word {
                Word::Open { begins } if options && begins.starts_with('-') => {
                    return Taken::Code { at };
                }
                Word::Open { .. } if given || first == First::Script => return Taken::Harmless,
                Word::Open { .. } => return Taken::Code { at },
                Word::Fixed(text) => text,
            };
            at += 1;
            if options && text == "--" {
                options = false;
                continue;
            }
            if !options || !text.starts_with('-') || text == "-" {
                if let Some((_, after)) = verbs.iter().find(|(verb, _)| *verb == text) {
                    first = *after;
                    verbs = &[];
                    continue;
                }
                let reads = text == "-" || may_be_device(text);
                return if reads && !given && first == First::Script {
                    Taken::Input { at }
                } else {
                    Taken::Harmless
                };
            }
            let code = match self.read(text) {
                Reading::Whole => None,
                Reading::Given(rest) => Some(rest),
                Reading::Takes(kind) => {
                    let is_open = words.get(at).is_some_and(|word| word.fixed().is_none());
                    if is_open && kind != Kind::Data {
                        return Taken::Code { at };
                    }
                    at += 1;
                    match kind {
                        Kind::Code(rest) => Some(rest),
                        Kind::Own | Kind::Data => None,
                    }
                }
                Reading::Unknown => {
                    let mut after = words.iter().skip(at);
                    return if after.any(|word| word.fixed().is_none()) {
                        let (at, option) = (at - 1, text);
                        Taken::Untold { at, option }
                    } else {
                        Taken::Harmless
                    };
                }
            };
            match code {
                Some(Rest::Arguments) => return Taken::Harmless,
                Some(Rest::Options) => given = true,
                None => {}
            }
        }
        if given || first == First::Code {
            Taken::Harmless
        } else {
            Taken::Input { at: words.len() }
        }
    }

    /// What the option `text` is.
    fn read(&self, text: &str) -> Reading {
        if let Some(long) = text.strip_prefix("--") {
            let (name, joined) = match long.split_once('=') {
                Some((name, _)) => (name, true),
                None => (long, false),
            };
            return match (self.long_code.contains(&name), joined) {
                (true, true) => Reading::Given(Rest::Options),
                (true, false) => Reading::Takes(Kind::Code(Rest::Options)),
                (false, true) => Reading::Whole,
                (false, false) if self.long_own.contains(&name) => Reading::Takes(Kind::Own),
                (false, false) if self.long_flags.contains(&name) => Reading::Whole,
                (false, false) => Reading::Unknown,
            };
        }
        let mut letters = text.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            if self.flags.contains(letter) {
                continue;
            }
            let kind = if self.code.contains(letter) {
                Kind::Code(Rest::Options)
            } else if self.last.contains(letter) {
                Kind::Code(Rest::Arguments)
            } else if self.own.contains(letter) {
                Kind::Own
            } else if self.data.contains(letter) {
                Kind::Data
            } else if self.glued.contains(letter) {
                return Reading::Whole;
            } else {
                return Reading::Unknown;
            };
            let glued = letters.as_str();
            // `-pe` of node is `-p -e`.
            if glued.chars().all(|letter| self.code.contains(letter)) {
                return Reading::Takes(kind);
            }
            return match kind {
                Kind::Code(rest) => Reading::Given(rest),
                Kind::Own | Kind::Data => Reading::Whole,
            };
        }
        Reading::Whole
    }
}
