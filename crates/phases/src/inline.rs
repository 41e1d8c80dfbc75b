//! Tests that stand in a Rust source file, behind `#[cfg(test)]`.
//!
//! Guarantee: what [`only_tests_differ`] calls a change of tests leaves the product as it was: the
//! compiler sees the same items in the same order unless it compiles tests. Comments are no items.
//! A file that does not parse is never a change of tests.

use quote::ToTokens as _;
use regex::Regex;
use std::sync::LazyLock;
use syn::{Attribute, File, ImplItem, Item, Meta};

/// Longest file that is parsed.
const BYTES: usize = 2 * 1024 * 1024;

/// Whether `old` and `new` differ in items behind `#[cfg(test)]` alone.
pub fn only_tests_differ(old: &str, new: &str) -> bool {
    match (without_tests(old), without_tests(new)) {
        (Some(old), Some(new)) => old == new,
        (None, _) | (_, None) => false,
    }
}

/// The items behind `#[cfg(test)]`, as one text; none if the file does not parse.
pub fn inline_tests(text: &str) -> Option<String> {
    let file = parsed(text)?;
    if file.attrs.iter().any(is_test) {
        return Some(file.to_token_stream().to_string());
    }
    let mut found = String::new();
    collect(&file.items, &mut found);
    Some(found)
}

static TEST_ATTRIBUTE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"cfg(\s*\(\s*)test(\s*\))").ok());

/// The text of a file whose items behind `#[cfg(test)]` are never compiled, each line where it was;
/// none if it does not parse, or hides them otherwise.
pub fn product_of(text: &str) -> Option<String> {
    let never = TEST_ATTRIBUTE
        .as_ref()?
        .replace_all(text, "cfg${1}any()${2}");
    let left = inline_tests(&never)?;
    left.is_empty().then(|| never.into_owned())
}

/// What the compiler sees of a file without tests, as one text; none if it does not parse.
pub(crate) fn product_text(text: &str) -> Option<String> {
    without_tests(text)
}

fn parsed(text: &str) -> Option<File> {
    if text.len() > BYTES {
        return None;
    }
    syn::parse_file(text).ok()
}

fn without_tests(text: &str) -> Option<String> {
    let mut file = parsed(text)?;
    if file.attrs.iter().any(is_test) {
        return Some("#![cfg(test)]".to_owned());
    }
    strip(&mut file.items);
    Some(file.to_token_stream().to_string())
}

fn strip(items: &mut Vec<Item>) {
    items.retain(|item| !attributes(item).iter().any(is_test));
    for item in items {
        if let Item::Mod(module) = item
            && let Some((_, items)) = &mut module.content
        {
            strip(items);
        } else if let Item::Impl(block) = item {
            block
                .items
                .retain(|item| !member_attributes(item).iter().any(is_test));
        }
    }
}

fn collect(items: &[Item], found: &mut String) {
    for item in items {
        if attributes(item).iter().any(is_test) {
            found.push_str(&item.to_token_stream().to_string());
            found.push('\n');
        } else if let Item::Mod(module) = item
            && let Some((_, items)) = &module.content
        {
            collect(items, found);
        } else if let Item::Impl(block) = item {
            for member in &block.items {
                if member_attributes(member).iter().any(is_test) {
                    found.push_str(&member.to_token_stream().to_string());
                    found.push('\n');
                }
            }
        }
    }
}

/// `cfg(test)` to the letter: anything composed could hold without tests.
fn is_test(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        Meta::Path(_) | Meta::NameValue(_) => false,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an item of another kind has no attribute that would make it a test"
)]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a member of another kind has no attribute that would make it a test"
)]
fn member_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "pub fn a() -> u32 { 1 }\n#[cfg(test)]\nmod tests { #[test] fn t() {} }\n";

    #[test]
    fn a_change_behind_cfg_test_is_a_change_of_tests_and_nothing_else_is() {
        for (case, new, want) in [
            (
                "a test more",
                "pub fn a() -> u32 { 1 }\n#[cfg(test)]\nmod tests { #[test] fn t() {} #[test] fn u() { assert!(false) } }\n",
                true,
            ),
            ("no tests at all", "pub fn a() -> u32 { 1 }\n", true),
            (
                "a helper for tests",
                "pub fn a() -> u32 { 1 }\n#[cfg(test)] fn help() {}\n",
                true,
            ),
            ("a comment", "// so\npub fn a() -> u32 { 1 }\n", true),
            (
                "the body",
                "pub fn a() -> u32 { 2 }\n#[cfg(test)]\nmod tests { #[test] fn t() {} }\n",
                false,
            ),
            (
                "another item",
                "pub fn a() -> u32 { 1 }\nfn b() {}\n",
                false,
            ),
            (
                "cfg that also holds without tests",
                "pub fn a() -> u32 { 1 }\n#[cfg(any(test, unix))] fn b() {}\n",
                false,
            ),
            (
                "not test",
                "pub fn a() -> u32 { 1 }\n#[cfg(not(test))] fn b() {}\n",
                false,
            ),
            (
                "a name that is only like it",
                "pub fn a() -> u32 { 1 }\n#[cfg(feature = \"test\")] fn b() {}\n",
                false,
            ),
            (
                "a test that is compiled always",
                "pub fn a() -> u32 { 1 }\n#[test] fn b() {}\n",
                false,
            ),
            (
                "an attribute of the file",
                "#![allow(dead_code)]\npub fn a() -> u32 { 1 }\n",
                false,
            ),
            (
                "hidden from the product",
                "#[cfg(test)]\npub fn a() -> u32 { 1 }\n",
                false,
            ),
            ("broken", "pub fn a() -> u32 { 1\n", false),
            (
                "the whole file",
                "#![cfg(test)]\npub fn a() -> u32 { 1 }\n",
                false,
            ),
        ] {
            assert_eq!(only_tests_differ(OLD, new), want, "{case}");
        }
    }

    #[test]
    fn inline_tests_are_found_wherever_they_stand() {
        let nested = "mod x { #[cfg(test)] fn t() { let y = 1; } }\nstruct S;\nimpl S { #[cfg(test)] fn u() {} fn v() {} }\n";
        let found = inline_tests(nested).unwrap();
        assert!(found.contains("fn t") && found.contains("fn u") && !found.contains("fn v"));
        assert_eq!(inline_tests("fn a() {}").as_deref(), Some(""));
        assert_eq!(inline_tests("fn a( {}"), None);
    }

    #[test]
    fn the_product_is_the_file_with_its_tests_never_compiled_and_every_line_in_its_place() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\nfn b() {}\nmod m { # [ cfg ( test ) ] fn c() {} }\n";
        let product = product_of(text).unwrap();
        assert_eq!(inline_tests(&product).as_deref(), Some(""));
        let kept = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("cfg"));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(kept(&product), kept(text));
        assert_eq!(product.lines().count(), text.lines().count());
        assert_eq!(product_of("fn a( {}"), None);
        assert_eq!(product_of("#[cfg /* hidden */ (test)] fn a() {}"), None);
    }
}
