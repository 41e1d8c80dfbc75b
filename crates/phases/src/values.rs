//! What a function could return instead, of what it says it returns.

use crate::functions::Function;
use crate::suite::Language;
use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// What is put in place of what a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Nothing is done, and what comes back is the least there is.
    Emptied,
    /// Nothing is done, and what comes back is something nobody asked for.
    Other,
    /// Rust alone: the type's own default, where it is not known here whether there is one.
    Default,
    /// Rust alone: the function panics, where no value of its type is known.
    Panics,
}

/// The first statement of `function` that makes it so; none if there is none.
pub(crate) fn statement(
    language: Language,
    function: &Function,
    flavour: Flavour,
) -> Option<String> {
    match language {
        Language::Python => python(&function.name, flavour),
        Language::JavaScript => match flavour {
            Flavour::Emptied => Some("return null;".to_owned()),
            Flavour::Other => Some("return \"airlock\";".to_owned()),
            Flavour::Default | Flavour::Panics => None,
        },
        Language::Go => go(&function.returns, flavour),
        Language::Rust => rust(function, flavour),
    }
}

/// Methods that Python itself calls want values of their kind.
fn python(name: &str, flavour: Flavour) -> Option<String> {
    let (least, other) = match name {
        "__init__" | "__post_init__" | "__setattr__" | "__setitem__" | "__delitem__" => {
            ("None", "None")
        }
        "__len__" | "__hash__" | "__int__" | "__index__" => ("0", "77"),
        "__bool__" | "__eq__" | "__ne__" | "__lt__" | "__le__" | "__gt__" | "__ge__"
        | "__contains__" => ("False", "True"),
        "__str__" | "__repr__" => ("\"\"", "\"airlock\""),
        "__iter__" => ("iter(())", "iter((\"airlock\",))"),
        "__enter__" => ("self", "self"),
        _ => ("None", "\"airlock\""),
    };
    match flavour {
        Flavour::Emptied => Some(format!("return {least}")),
        Flavour::Other => (other != least).then(|| format!("return {other}")),
        Flavour::Default | Flavour::Panics => None,
    }
}

/// One type of what a function of Go returns, and its name where it has one.
fn go_results(returns: &str) -> Option<Vec<(Option<&str>, &str)>> {
    let listed = returns
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(listed) = listed else {
        return Some(if returns.is_empty() {
            Vec::new()
        } else {
            vec![(None, returns)]
        });
    };
    let parts = split(listed);
    let named = parts.iter().any(|part| {
        let (first, rest) = part.split_once(' ').unwrap_or((part, ""));
        let plain = first
            .chars()
            .all(|sign| sign.is_alphanumeric() || sign == '_');
        plain && !rest.is_empty() && !["func", "chan", "struct", "interface"].contains(&first)
    });
    if !named {
        return Some(parts.into_iter().map(|part| (None, part)).collect());
    }
    // `a, b int`: the type of one is that of the next that has one.
    let mut found = Vec::new();
    let mut kind = None;
    for part in parts.into_iter().rev() {
        match part.split_once(' ') {
            Some((name, told)) => {
                kind = Some(told.trim());
                found.push((Some(name), told.trim()));
            }
            None => found.push((Some(part), kind?)),
        }
    }
    found.reverse();
    Some(found)
}

/// The parts of a list, by the commas that stand in no bracket.
fn split(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from) = (0_i32, 0);
    for (at, sign) in list.char_indices() {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list.get(from..at).unwrap_or_default().trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list.get(from..).unwrap_or_default().trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn go(returns: &str, flavour: Flavour) -> Option<String> {
    let results = go_results(returns)?;
    let other = |kind: &str| match kind {
        "int" | "int8" | "int16" | "int32" | "int64" | "uint" | "uint8" | "uint16" | "uint32"
        | "uint64" | "byte" | "rune" => Some("77"),
        "float32" | "float64" => Some("77.5"),
        "string" => Some("\"airlock\""),
        "bool" => Some("true"),
        _ => None,
    };
    match flavour {
        Flavour::Emptied => {}
        Flavour::Other if results.iter().any(|(_, kind)| other(kind).is_some()) => {}
        Flavour::Other | Flavour::Default | Flavour::Panics => return None,
    }
    let values: Vec<String> = results
        .iter()
        .map(|(_, kind)| {
            let value = other(kind).filter(|_| flavour == Flavour::Other);
            value.map_or_else(|| format!("*new({kind})"), str::to_owned)
        })
        .collect();
    Some(format!("if true {{ return {} }};", values.join(", ")))
}

/// The least value of a type of Rust, and another one.
struct Values {
    least: String,
    other: Option<String>,
    /// Whether both can be made while compiling.
    constant: bool,
}

fn rust(function: &Function, flavour: Flavour) -> Option<String> {
    let written = format!("-> {}", function.returns);
    let told = if function.returns.is_empty() {
        ""
    } else {
        &written
    };
    let ReturnType::Type(_, kind) = syn::parse_str(told).ok()? else {
        return (flavour == Flavour::Emptied).then(|| "if true { return; }".to_owned());
    };
    let known = values(&kind).filter(|known| known.constant || !function.constant);
    let value = match (flavour, known) {
        (Flavour::Emptied, Some(known)) => known.least,
        (Flavour::Other, Some(known)) => known.other?,
        (Flavour::Default, None) => "Default::default()".to_owned(),
        (Flavour::Panics, None) => return Some("if true { panic!(); }".to_owned()),
        (Flavour::Emptied | Flavour::Other, None)
        | (Flavour::Default | Flavour::Panics, Some(_)) => return None,
    };
    Some(format!("if true {{ return {value}; }}"))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of a type that is written otherwise no value is known"
)]
fn values(kind: &Type) -> Option<Values> {
    match kind {
        Type::Tuple(tuple) => {
            let all: Vec<Values> = tuple.elems.iter().map(values).collect::<Option<_>>()?;
            let least: Vec<&str> = all.iter().map(|one| one.least.as_str()).collect();
            let other: Option<Vec<&str>> = all.iter().map(|one| one.other.as_deref()).collect();
            Some(Values {
                least: listed(&least),
                other: other
                    .filter(|other| !other.is_empty())
                    .map(|other| listed(&other)),
                constant: all.iter().all(|one| one.constant),
            })
        }
        Type::Reference(reference) => {
            let text = matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"));
            (text && reference.mutability.is_none()).then(|| plain("\"\"", "\"airlock\""))
        }
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last()?;
            let first = match &last.arguments {
                PathArguments::AngleBracketed(within) => within.args.first(),
                PathArguments::None | PathArguments::Parenthesized(_) => None,
            };
            let inner = match first {
                Some(GenericArgument::Type(inner)) => Some(inner),
                Some(_) | None => None,
            };
            named(&last.ident.to_string(), inner)
        }
        _ => None,
    }
}

/// A tuple of `values`; that of one has its comma.
fn listed(values: &[&str]) -> String {
    match values {
        [one] => format!("({one},)"),
        values => format!("({})", values.join(", ")),
    }
}

fn plain(least: &str, other: &str) -> Values {
    Values {
        least: least.to_owned(),
        other: Some(other.to_owned()),
        constant: true,
    }
}

fn named(name: &str, inner: Option<&Type>) -> Option<Values> {
    let wrapped = |least: Option<&str>, before: &str, after: &str| {
        let within = inner.and_then(values);
        let around = |value: &str| format!("{before}{value}{after}");
        let least = match (least, &within) {
            (Some(least), _) => least.to_owned(),
            (None, Some(within)) => around(&within.least),
            (None, None) => return None,
        };
        let other = within.and_then(|within| within.other);
        Some(Values {
            least,
            other: other.map(|other| around(&other)),
            constant: false,
        })
    };
    match (name, inner) {
        (
            "i8" | "i16" | "i32" | "i64" | "i128" | "isize" | "u8" | "u16" | "u32" | "u64" | "u128"
            | "usize",
            None,
        ) => Some(plain("0", "77")),
        ("f32" | "f64", None) => Some(plain("0.0", "77.5")),
        ("bool", None) => Some(plain("false", "true")),
        ("char", None) => Some(plain("'\\0'", "'~'")),
        ("String", None) => Some(Values {
            least: "String::new()".to_owned(),
            other: Some("String::from(\"airlock\")".to_owned()),
            constant: false,
        }),
        ("Option", Some(_)) => wrapped(Some("None"), "Some(", ")"),
        ("Vec", Some(_)) => wrapped(Some("Vec::new()"), "vec![", "]"),
        ("Box", Some(_)) => wrapped(None, "Box::new(", ")"),
        ("Result", Some(_)) => wrapped(None, "Ok(", ")"),
        ("Result", None) => Some(Values {
            least: "Ok(())".to_owned(),
            other: None,
            constant: false,
        }),
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::functions;

    fn put(language: Language, text: &str, flavour: Flavour) -> Option<String> {
        let found = functions(language, text);
        statement(language, found.first().unwrap(), flavour)
    }

    #[test]
    fn each_type_of_rust_has_its_values_or_none() {
        use Flavour::{Default, Emptied, Other, Panics};
        for (returns, flavour, want) in [
            ("-> u32", Emptied, Some("0")),
            ("-> u8", Other, Some("77")),
            ("-> &'static str", Other, Some("\"airlock\"")),
            (
                "-> Result<Option<String>, Error>",
                Emptied,
                Some("Ok(None)"),
            ),
            ("-> io::Result<Vec<bool>>", Other, Some("Ok(vec![true])")),
            ("-> (u32, bool)", Emptied, Some("(0, false)")),
            ("-> ()", Emptied, Some("()")),
            ("-> ()", Other, None),
            ("-> Point", Emptied, None),
            ("-> Point", Default, Some("Default::default()")),
            ("-> u32", Default, None),
            ("-> Result<Point, Error>", Emptied, None),
            (
                "-> impl Iterator<Item = u32>",
                Default,
                Some("Default::default()"),
            ),
        ] {
            let text = format!("fn f() {returns} {{ g() }}");
            let want = want.map(|value| format!("if true {{ return {value}; }}"));
            assert_eq!(put(Language::Rust, &text, flavour), want, "{returns}");
        }
        let unit = put(Language::Rust, "fn f() { g() }", Emptied);
        assert_eq!(unit.as_deref(), Some("if true { return; }"));
        let panics = put(Language::Rust, "fn f() -> X { g() }", Panics);
        assert_eq!(panics.as_deref(), Some("if true { panic!(); }"));
        let constant = put(Language::Rust, "const fn f() -> String { g() }", Emptied);
        assert_eq!(constant, None, "it could not be compiled");
    }

    #[test]
    fn every_result_of_go_has_its_least_value() {
        use Flavour::{Emptied, Other};
        for (returns, flavour, want) in [
            ("int", Emptied, Some("*new(int)")),
            ("int", Other, Some("77")),
            (
                "(string, error)",
                Emptied,
                Some("*new(string), *new(error)"),
            ),
            ("(string, error)", Other, Some("\"airlock\", *new(error)")),
            ("(a, b int, err error)", Other, Some("77, 77, *new(error)")),
            ("map[string]int", Emptied, Some("*new(map[string]int)")),
            ("*T", Other, None),
            (
                "(map[string]func(a, b int) int, bool)",
                Other,
                Some("*new(map[string]func(a, b int) int), true"),
            ),
        ] {
            let text = format!("func f() {returns} {{\n}}\n");
            let want = want.map(|value| format!("if true {{ return {value} }};"));
            assert_eq!(put(Language::Go, &text, flavour), want, "{returns}");
        }
        let none = put(Language::Go, "func f() {\n}\n", Emptied);
        assert_eq!(none.as_deref(), Some("if true { return  };"));
    }

    #[test]
    fn python_gets_back_what_it_wants_of_its_own_methods() {
        use Flavour::{Emptied, Other};
        for (name, flavour, want) in [
            ("double", Emptied, Some("return None")),
            ("double", Other, Some("return \"airlock\"")),
            ("__init__", Emptied, Some("return None")),
            ("__init__", Other, None),
            ("__len__", Other, Some("return 77")),
        ] {
            let text = format!("def {name}(self):\n    pass\n");
            assert_eq!(
                put(Language::Python, &text, flavour).as_deref(),
                want,
                "{name}"
            );
        }
    }
}
