//! The Seatbelt profile by its content: parsed back, it has the rules of the plan and no others.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use airlock_sandbox::generate::{SeatbeltError, SeatbeltFacts, seatbelt};
use airlock_sandbox::{HostPath, Plan, PlanBuilder, Surroundings, Template, View};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::num::NonZeroU16;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Word(String),
    Text(String),
    List(Vec<Form>),
}

/// Reads S-expressions as Scheme does: in a string a backslash takes the next character as it is.
fn parse(text: &str) -> Vec<Form> {
    let mut open: Vec<Vec<Form>> = vec![Vec::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let form = match character {
            ' ' | '\n' => continue,
            '(' => {
                open.push(Vec::new());
                continue;
            }
            ')' => Form::List(open.pop().unwrap()),
            '"' => {
                let mut string = String::new();
                loop {
                    match characters.next().unwrap() {
                        '"' => break,
                        '\\' => string.push(characters.next().unwrap()),
                        other => string.push(other),
                    }
                }
                Form::Text(string)
            }
            ';' | '#' | '\'' | '`' | ',' => panic!("{character} outside a string"),
            first => {
                let mut word = String::from(first);
                while let Some(next) = characters.next_if(|c| !" \n()\"".contains(*c)) {
                    word.push(next);
                }
                Form::Word(word)
            }
        };
        open.last_mut().unwrap().push(form);
    }
    assert_eq!(open.len(), 1, "unclosed");
    open.pop().unwrap()
}

fn rule(effect: &str, operation: &str, filter: &str, text: &str) -> Form {
    let word = |text: &str| Form::Word(text.to_owned());
    let filter = Form::List(vec![word(filter), Form::Text(text.to_owned())]);
    Form::List(vec![word(effect), word(operation), filter])
}

fn path(text: &str) -> HostPath {
    HostPath::new(text).unwrap()
}

fn begin(template: &str) -> PlanBuilder {
    Plan::builder(Template::find(template).unwrap(), &Surroundings::default())
}

fn generate(plan: &Plan) -> Result<String, SeatbeltError> {
    let facts = SeatbeltFacts {
        system: &[path("/usr/lib"), path("/System")],
        temporary: &path("/private/tmp/s1"),
        stage: Some(&path("/stage")),
        proxy: NonZeroU16::new(4_711),
    };
    seatbelt(plan, &facts)
}

#[test]
fn a_plan_becomes_this_profile() {
    let plan = begin("integration-test")
        .workspace("/w", View::Staged)
        .read("/opt/tool")
        .write("/cache")
        .deny("/cache/a/private")
        .deny_pattern("**/.env*")
        .reach("*.example.org", 443)
        .build()
        .unwrap();
    insta::assert_snapshot!(generate(&plan).unwrap());
}

#[test]
fn everything_is_denied_first_and_denials_come_last() {
    let plan = begin("code-executor")
        .read("/a")
        .deny("/a/b")
        .build()
        .unwrap();
    let forms = parse(&generate(&plan).unwrap());
    let place = |form: &Form| forms.iter().position(|own| own == form).unwrap();
    let first = Form::List(vec![
        Form::Word("deny".into()),
        Form::Word("default".into()),
    ]);
    assert_eq!(place(&first), 1);
    let allowed = place(&rule("allow", "file-read*", "subpath", "/a"));
    let denied = place(&rule("deny", "file-read*", "subpath", "/a/b"));
    assert!(allowed < denied);
}

#[test]
fn a_denied_path_cannot_be_moved_away_with_its_directory() {
    let plan = begin("code-executor")
        .write("/c")
        .deny("/c/a/b/x")
        .build()
        .unwrap();
    let forms = parse(&generate(&plan).unwrap());
    for directory in ["/c/a/b", "/c/a", "/c"] {
        let want = rule("deny", "file-write-unlink", "literal", directory);
        assert!(forms.contains(&want), "{directory}");
    }
}

#[test]
fn denials_in_the_workspace_hold_in_its_stage() {
    let plan = begin("code-executor")
        .workspace("/w", View::Staged)
        .deny("/w/private")
        .deny_pattern("/w/*/key")
        .build()
        .unwrap();
    let forms = parse(&generate(&plan).unwrap());
    for want in [
        rule("deny", "file-read*", "subpath", "/stage/private"),
        rule("deny", "file-write*", "subpath", "/stage/private"),
        rule("deny", "file-write*", "subpath", "/stage/.airlock"),
        rule("deny", "file-read*", "regex", "^/stage/[^/]*/key(/|$)"),
        rule("deny", "file-write-unlink", "literal", "/stage"),
    ] {
        assert!(forms.contains(&want), "{want:?}");
    }
}

#[test]
fn what_is_missing_is_an_error() {
    let facts = SeatbeltFacts {
        system: &[],
        temporary: &path("/private/tmp/s1"),
        stage: None,
        proxy: None,
    };
    let staged = begin("code-executor")
        .workspace("/w", View::Staged)
        .build()
        .unwrap();
    assert_eq!(
        seatbelt(&staged, &facts),
        Err(SeatbeltError::NoStage(path("/w")))
    );
    let online = begin("integration-test").build().unwrap();
    assert_eq!(seatbelt(&online, &facts), Err(SeatbeltError::NoProxy));
    let offline = begin("integration-test").without_network().build().unwrap();
    assert!(!seatbelt(&offline, &facts).unwrap().contains("network"));
}

#[cfg(unix)]
#[test]
fn a_name_that_is_not_utf_8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let plan = begin("code-executor")
        .read(OsStr::from_bytes(b"/\xff"))
        .build()
        .unwrap();
    assert!(matches!(generate(&plan), Err(SeatbeltError::NotUtf8(_))));
}

const HOSTILE: &str = "/([\"()\\\\\n;#'`,*]|\\)\\)\\(allow default\\)|\"\\)|\\\\\"|[a-z]){1,8}";

proptest! {
    #[test]
    fn hostile_paths_and_hosts_add_their_own_rules_alone(
        reads in proptest::collection::vec(HOSTILE, 0..4),
        denied in proptest::collection::vec(HOSTILE, 0..3),
        hosts in proptest::collection::vec("([a-z.*\"() \n\\\\-]|\\(allow default\\)){1,12}", 0..3),
    ) {
        let builder = reads.iter().fold(begin("integration-test"), PlanBuilder::read);
        let builder = denied.iter().fold(builder, PlanBuilder::deny);
        let hosts = hosts.iter().filter(|host| {
            begin("integration-test").reach(host, 443).build().is_ok()
        });
        let plan = hosts.fold(builder, |builder, host| builder.reach(host, 443)).build();
        prop_assume!(plan.is_ok());
        let plan = plan.unwrap();
        let base = parse(&generate(&begin("integration-test").build().unwrap()).unwrap());
        let forms = parse(&generate(&plan).unwrap());
        let added: Vec<&Form> = forms.iter().filter(|form| !base.contains(form)).collect();
        let text = |path: &HostPath| path.as_os_str().to_str().unwrap().to_owned();
        let mut want: Vec<Form> = plan
            .reads()
            .iter()
            .map(|path| rule("allow", "file-read*", "subpath", &text(path)))
            .collect();
        let denied: BTreeSet<HostPath> = denied.iter().map(|text| path(text)).collect();
        for path in denied {
            want.push(rule("deny", "file-read*", "subpath", &text(&path)));
            want.push(rule("deny", "file-write*", "subpath", &text(&path)));
        }
        prop_assert_eq!(added, want.iter().collect::<Vec<_>>());
        // Nothing of the base is lost either.
        prop_assert!(base.iter().all(|form| forms.contains(form)));
    }

    #[test]
    fn a_pattern_denies_on_macos_what_it_denies_here(
        pattern in "(/|\\*\\*/)([ab.*?(+]{1,3}/){0,2}[ab.*?(+]{1,2}",
        place in "(/[ab.(+\n]{1,2}){1,4}",
    ) {
        let plan = begin("code-executor").read("/a").deny_pattern(&pattern).build();
        prop_assume!(plan.is_ok());
        let plan = plan.unwrap();
        let place = HostPath::new(&place);
        prop_assume!(place.is_ok());
        let place = place.unwrap();
        let denial = plan.denials().first().unwrap();
        let forms = parse(&generate(&plan).unwrap());
        let expression = forms.iter().rev().find_map(|form| match form {
            Form::List(parts) => match parts.as_slice() {
                [_, _, Form::List(filter)] => match filter.as_slice() {
                    [Form::Word(word), Form::Text(text)] if word == "regex" => Some(text.clone()),
                    _ => None,
                },
                _ => None,
            },
            Form::Word(_) | Form::Text(_) => None,
        });
        let expression = regex::Regex::new(&expression.unwrap()).unwrap();
        let text = place.as_os_str().to_str().unwrap();
        prop_assert_eq!(expression.is_match(text), denial.target.covers(&place), "{}", pattern);
    }
}
