//! From TypeScript to JavaScript by erasing types, and checks that hold for both.
//!
//! Types are overwritten with spaces, so that every line and column of a message is the author's
//! own. What is more than a type - `enum`, `namespace`, parameter properties, decorators - has no
//! plain JavaScript under it and is refused with what to write instead.

mod blank;

use crate::problem::Problem;
use crate::wire::Language;
use blank::Eraser;
use oxc_allocator::Allocator;
use oxc_ast_visit::Visit;
use oxc_parser::config::TokensParserConfig;
use oxc_parser::{Parser, ParserReturn};
use oxc_span::SourceType;

/// `source` as plain JavaScript of the same length, or the first thing that is wrong with it.
pub(crate) fn erase(file: &str, source: &str, language: Language) -> Result<String, Problem> {
    let allocator = Allocator::default();
    let kind = match language {
        Language::TypeScript => SourceType::ts(),
        Language::JavaScript => SourceType::mjs(),
    };
    let parsed = parse(&allocator, source, kind);
    if let Some(problem) = first_error(file, source, &parsed, "mend the syntax there") {
        return Err(problem);
    }
    let tokens = parsed
        .tokens
        .iter()
        .map(|token| (token.start(), token.end()));
    let mut visitor = Eraser::new(source, tokens.collect());
    visitor.visit_program(&parsed.program);
    let (erased, refused) = visitor.finish();
    if let Some(refused) = refused {
        return Err(Problem::at(
            file,
            source,
            refused.offset,
            refused.message,
            refused.hint,
        ));
    }
    // A type that spans lines can have stood where JavaScript allows no new line.
    let again = parse(&allocator, allocator.alloc_str(&erased), SourceType::mjs());
    let hint = "write the type on the line of what it belongs to";
    first_error(file, source, &again, hint).map_or(Ok(erased), Err)
}

fn parse<'a>(allocator: &'a Allocator, source: &'a str, kind: SourceType) -> ParserReturn<'a> {
    Parser::new(allocator, source, kind)
        .with_config(TokensParserConfig)
        .parse()
}

fn first_error(
    file: &str,
    source: &str,
    parsed: &ParserReturn<'_>,
    hint: &'static str,
) -> Option<Problem> {
    let error = parsed.diagnostics.first()?;
    let offset = error.labels.first().map_or(0, |label| {
        usize::try_from(label.offset()).unwrap_or(usize::MAX)
    });
    let message = error.message.to_string();
    let hint = error.help.as_ref().map_or(hint, |help| help);
    Some(Problem::at(
        file,
        source,
        offset,
        lower_first(&message),
        hint,
    ))
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests;
