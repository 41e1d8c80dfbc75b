//! Where a value would be a program, or code, in a command that a definition makes of fixed words and
//! of values.

use super::interpreters::{self, Interpreter, Taken};
use super::{shells, wrappers};

/// One word of such a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word<'a> {
    /// The author's own.
    Fixed(&'a str),
    /// One that a value completes or is.
    Open {
        /// What the author wrote before the value. A value that may begin with a dash begins with one.
        begins: &'a str,
    },
}

impl<'a> Word<'a> {
    pub(super) const fn fixed(self) -> Option<&'a str> {
        match self {
            Self::Fixed(text) => Some(text),
            Self::Open { .. } => None,
        }
    }
}

/// What such a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Nothing, or text of the author's own.
    Fixed,
    /// Text that a value completes or is.
    Open,
}

/// A place where a value would be a program or code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// Which word.
    pub at: usize,
    /// What is the matter.
    pub what: String,
    /// How to mend it.
    pub fix: &'static str,
}

const PROGRAM: &str = "write the program itself; a value can be one of its arguments";
const CODE: &str =
    "write the code into a file, name that, and give the value as an argument after it";
const STDIN: &str = "name a file with the code; `stdin` is then what that reads";

/// The first place in `words` where a value would be a program or code; none if there is none that
/// can be told.
pub fn exposed(words: &[Word<'_>], input: Input) -> Option<Exposed> {
    let fixed: Vec<String> = words
        .iter()
        .map_while(|word| word.fixed().map(str::to_owned))
        .collect();
    let is_open = fixed.len() < words.len();
    if !is_open && input == Input::Fixed {
        return None;
    }
    let mut at = 0;
    while let Some(program) = fixed.get(at) {
        let rest = fixed.get(at + 1..).unwrap_or_default();
        let name = wrappers::base_name(program);
        if shells::is_shell(name) {
            let next = words.get(fixed.len()).copied();
            return in_shell(name, rest, (fixed.len(), next), input);
        }
        if let Some(interpreter) = interpreters::of(name) {
            let arguments = words.get(at + 1..).unwrap_or_default();
            return in_interpreter(name, interpreter, arguments, at + 1, input);
        }
        match wrappers::step(program, rest) {
            Ok(Some(ahead)) => at += 1 + ahead,
            Ok(None) => return None,
            Err(opaque) => {
                return is_open.then_some(Exposed {
                    at: fixed.len(),
                    what: format!("the program is not fixed: {}", opaque.what),
                    fix: opaque.fix,
                });
            }
        }
    }
    is_open.then(|| Exposed {
        at: fixed.len(),
        what: "the program is not fixed: a value would say which one is run".to_owned(),
        fix: PROGRAM,
    })
}

/// The same in the arguments of the shell `name`, which are `fixed` up to `next`.
fn in_shell(
    name: &str,
    fixed: &[String],
    (at, next): (usize, Option<Word<'_>>),
    input: Input,
) -> Option<Exposed> {
    match (shells::next(name, fixed), next) {
        (shells::Next::Commands, Some(_)) => Some(code(at, name)),
        (shells::Next::Script, Some(Word::Open { begins })) if shells::is_option(begins) => {
            Some(code(at, name))
        }
        (shells::Next::Script | shells::Next::Commands, None) => read(at, name, input),
        (shells::Next::Script | shells::Next::Argument, _) => None,
    }
}

/// The same in the `words` of an interpreter, the first of which is number `first` of the command.
fn in_interpreter(
    name: &str,
    interpreter: &Interpreter,
    words: &[Word<'_>],
    first: usize,
    input: Input,
) -> Option<Exposed> {
    match interpreter.take(words) {
        Taken::Harmless => None,
        Taken::Code { at } => Some(code(first + at, name)),
        Taken::Untold { at, option } => Some(Exposed {
            at: first + at,
            what: format!("`{name}` is given `{option}`, and what is code after it cannot be told"),
            fix: "leave the option out, or put it into a script",
        }),
        Taken::Input { at } => read(first + at, name, input),
    }
}

fn code(at: usize, name: &str) -> Exposed {
    Exposed {
        at,
        what: format!("a value would become code of `{name}`"),
        fix: CODE,
    }
}

fn read(at: usize, name: &str, input: Input) -> Option<Exposed> {
    (input == Input::Open).then(|| Exposed {
        at: at.saturating_sub(1),
        what: format!("`{name}` reads code, and a value would become part of it"),
        fix: STDIN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with a `$` in them are completed by a value.
    fn found(line: &str, input: Input) -> Option<(usize, String)> {
        let word = |text: &'static str| match text.split_once('$') {
            None => Word::Fixed(text),
            Some((begins, _)) => Word::Open { begins },
        };
        let line: &'static str = line.to_owned().leak();
        let words: Vec<Word<'_>> = line.split(' ').map(word).collect();
        exposed(&words, input).map(|exposed| (exposed.at, exposed.what))
    }

    #[test]
    fn a_value_is_never_a_program_or_code() {
        for (line, at) in [
            ("$ x", 0),
            ("env $ file", 1),
            ("/usr/bin/env -i $", 2),
            ("env A=$ cargo", 1),
            ("nice -n 5 $", 3),
            ("nice -n $ cargo", 2),
            ("nohup $", 1),
            ("timeout 5 $", 2),
            ("timeout $ cargo", 1),
            ("env nice setsid stdbuf -oL time ionice $", 7),
            ("command $", 1),
            ("xargs $", 1),
            ("xargs -n 1 rm $", 4),
            ("sudo $", 1),
            ("busybox $", 1),
            ("busybox cat $", 2),
            ("sh -c $", 2),
            ("sh -c echo$", 2),
            ("bash -euo pipefail -c $", 4),
            ("bash -c$", 1),
            ("zsh +c $", 2),
            ("env dash -ec $", 3),
            ("fish -c $", 2),
            ("python3 -c $", 2),
            ("python3 -c print($)", 2),
            ("python3.12 -Bc $", 2),
            ("python3 -cprint($)", 1),
            ("python3 -W ignore -c $", 4),
            ("python -m $", 2),
            ("env python3 -c $", 3),
            ("perl -e $", 2),
            ("perl -lane $", 2),
            ("perl -e 1 -E $", 4),
            ("perl -I $ x.pl", 2),
            ("perl -M$ x.pl", 1),
            ("ruby -ne $", 2),
            ("ruby -r $ x.rb", 2),
            ("node -e $", 2),
            ("node -pe $", 2),
            ("node --eval $", 2),
            ("node --eval=$", 1),
            ("nodejs -p $", 2),
            ("node --require $ x.js", 2),
            ("bun -e $", 2),
            ("deno eval $", 2),
            ("deno eval --ext=ts $", 3),
            ("php -r $", 2),
            ("php -f $", 2),
            ("lua -e $", 2),
            ("awk $ file", 1),
            ("awk -F , $ file", 3),
            ("awk -v x=$ $ file", 3),
            ("gawk -f $ file", 2),
            ("sed $ file", 1),
            ("sed -n s/a/$/ file", 2),
            ("sed -i.bak -e $ file", 3),
            ("sed --expression=$ file", 1),
        ] {
            let found = found(line, Input::Fixed);
            assert_eq!(found.as_ref().map(|(at, _)| *at), Some(at), "{line}");
        }
    }

    #[test]
    fn a_value_may_be_an_argument() {
        for line in [
            "cargo test $",
            "env cargo $",
            "timeout 5 nice -n 5 cargo $",
            "./env $",
            "rg -e $",
            "grep -c $ file",
            "find . -name $",
            "sh run.sh $",
            "sh $",
            "bash -eu run.sh -c $",
            "sh -c id $",
            "python3 run.py $",
            "python3 run.py -c $",
            "python3 $",
            "python3 -m pytest $",
            "python3 -m pytest -c $",
            "python3 -c pass --name $",
            "perl -ne print $",
            "perl run.pl -e $",
            "node run.js --eval $",
            "node --test run.js $",
            "deno run run.ts $",
            "php -r 1; $",
            "awk {print} $",
            "awk -v x=$ {print}",
            "awk -f run.awk $",
            "sed -n p $",
            "sed -e p -- $",
            "python3 -c pass",
        ] {
            assert_eq!(found(line, Input::Fixed), None, "{line}");
        }
    }

    #[test]
    fn what_reads_code_reads_no_value() {
        for (line, refused) in [
            ("cat", false),
            ("sh", true),
            ("sh -e", true),
            ("sh -s", true),
            ("sh run.sh", false),
            ("python3", true),
            ("python3 -", true),
            ("python3 /dev/stdin", true),
            ("env python3 -u", true),
            ("python3 run.py", false),
            ("python3 --odd run.py", false),
            ("python3 -c pass", false),
            ("node", true),
            ("node -e 1", false),
            ("awk {print}", false),
            ("sed p", false),
            ("xargs rm", false),
        ] {
            assert_eq!(found(line, Input::Open).is_some(), refused, "{line}");
            assert_eq!(found(line, Input::Fixed), None, "{line}");
        }
    }

    #[test]
    fn an_option_that_is_not_known_hides_what_is_code() {
        let (at, what) = found("python3 --odd x $", Input::Fixed).unwrap();
        assert_eq!(at, 1);
        assert!(what.contains("`--odd`"), "{what}");
    }
}
