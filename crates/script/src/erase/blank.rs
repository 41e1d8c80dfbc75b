//! Walks a script's tree and notes what to overwrite and what to refuse.
//!
//! Erasing must not change what the rest means. Where a type ended a statement that had no
//! semicolon, the next line could become its continuation, so a semicolon takes the type's place.

use oxc_ast::ast::{
    Class, ClassElement, Declaration, Decorator, ExportDefaultDeclarationKind, ExportSpecifier,
    FormalParameter, ImportExpression, ImportOrExportKind, MethodDefinition, MethodDefinitionType,
    PropertyDefinition, PropertyDefinitionType, Statement, TSAsExpression, TSNonNullExpression,
    TSSatisfiesExpression, TSThisParameter, TSTypeAnnotation, TSTypeAssertion,
    TSTypeParameterDeclaration, TSTypeParameterInstantiation, VariableDeclarator,
};
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};
use std::collections::HashSet;

/// Something that cannot be erased.
pub(super) struct Refused {
    pub(super) offset: usize,
    pub(super) message: &'static str,
    pub(super) hint: &'static str,
}

/// Whether a semicolon takes the place of what is erased.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Semicolon {
    Never,
    /// If a statement or class element follows.
    IfLast,
    Always,
}

struct Blank {
    start: u32,
    end: u32,
    semicolon: Semicolon,
}

pub(super) struct Eraser<'s> {
    source: &'s str,
    /// Start and end of every token, in order.
    tokens: Vec<(u32, u32)>,
    /// Where statements and class elements start.
    starts: HashSet<u32>,
    blanks: Vec<Blank>,
    refused: Option<Refused>,
}

impl<'s> Eraser<'s> {
    pub(super) fn new(source: &'s str, tokens: Vec<(u32, u32)>) -> Self {
        Self {
            source,
            tokens,
            starts: HashSet::new(),
            blanks: Vec::new(),
            refused: None,
        }
    }

    /// The script without types, and the first thing that is refused.
    pub(super) fn finish(self) -> (String, Option<Refused>) {
        let mut bytes = self.source.as_bytes().to_vec();
        for blank in &self.blanks {
            let range = index(blank.start)..index(blank.end);
            for byte in bytes.get_mut(range).into_iter().flatten() {
                if !matches!(byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        for blank in &self.blanks {
            let wanted = match blank.semicolon {
                Semicolon::Never => false,
                Semicolon::Always => true,
                Semicolon::IfLast => self.starts.contains(&self.after(blank.end).0),
            };
            if let Some(byte) = bytes.get_mut(index(blank.start)).filter(|_| wanted) {
                *byte = b';';
            }
        }
        // Spans begin and end between characters, so this is text; if not, parsing it again fails.
        (String::from_utf8_lossy(&bytes).into_owned(), self.refused)
    }

    fn blank(&mut self, start: u32, end: u32, semicolon: Semicolon) {
        if start < end {
            self.blanks.push(Blank {
                start,
                end,
                semicolon,
            });
        }
    }

    fn refuse(&mut self, span: Span, message: &'static str, hint: &'static str) {
        let offset = index(span.start);
        let earlier = self
            .refused
            .as_ref()
            .is_none_or(|known| offset < known.offset);
        if earlier {
            self.refused = Some(Refused {
                offset,
                message,
                hint,
            });
        }
    }

    /// The first token that starts at `offset` or later; an empty one at the end.
    fn after(&self, offset: u32) -> (u32, u32) {
        let at = self.tokens.partition_point(|(start, _)| *start < offset);
        self.tokens.get(at).copied().unwrap_or((u32::MAX, u32::MAX))
    }

    /// The last token that starts before `offset`.
    fn before(&self, offset: u32) -> Option<(u32, u32)> {
        let at = self.tokens.partition_point(|(start, _)| *start < offset);
        self.tokens.get(at.checked_sub(1)?).copied()
    }

    fn text(&self, token: (u32, u32)) -> &'s str {
        self.source
            .get(index(token.0)..index(token.1))
            .unwrap_or_default()
    }

    /// Overwrites the mark that follows `offset`, `?` or `!`.
    fn blank_mark(&mut self, offset: u32, mark: &str) {
        let token = self.after(offset);
        if self.text(token) == mark {
            self.blank(token.0, token.1, Semicolon::Never);
        }
    }

    /// Overwrites the modifiers of a class element that only types know, up to its name.
    fn blank_modifiers(&mut self, element: Span, key: Span) {
        let modifiers = self
            .tokens
            .iter()
            .copied()
            .filter(|(start, end)| *start >= element.start && *end <= key.start);
        let known = [
            "public",
            "private",
            "protected",
            "readonly",
            "override",
            "abstract",
            "declare",
        ];
        let found: Vec<_> = modifiers
            .filter(|token| known.contains(&self.text(*token)))
            .collect();
        for (start, end) in found {
            // Without a word before it a name in brackets would continue the line above.
            let first = start == element.start;
            let semicolon = if first {
                Semicolon::Always
            } else {
                Semicolon::Never
            };
            self.blank(start, end, semicolon);
        }
    }

    /// Whether nothing of a declaration is left without types. Refuses what is more than types.
    fn is_type_only(&mut self, declaration: &Declaration<'_>) -> bool {
        match declaration {
            Declaration::VariableDeclaration(it) => it.declare,
            Declaration::FunctionDeclaration(it) => it.declare || it.body.is_none(),
            Declaration::ClassDeclaration(it) => it.declare,
            Declaration::TSTypeAliasDeclaration(_)
            | Declaration::TSInterfaceDeclaration(_)
            | Declaration::TSExternalModuleDeclaration(_)
            | Declaration::TSGlobalDeclaration(_) => true,
            Declaration::TSEnumDeclaration(it) => {
                if !it.declare {
                    let hint = "write an object: `const Level = { Low: 0, High: 1 } as const`";
                    self.refuse(it.span, "an `enum` is more than a type", hint);
                }
                true
            }
            Declaration::TSNamespaceDeclaration(it) => {
                if !it.declare {
                    let hint = "write plain functions, or an object that holds them";
                    self.refuse(it.span, "a `namespace` is more than a type", hint);
                }
                true
            }
            Declaration::TSImportEqualsDeclaration(it) => {
                self.refuse(it.span, NO_MODULES, ONE_FILE);
                true
            }
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the parser's own lists; what is not named here is JavaScript"
    )]
    fn is_type_only_statement(&mut self, statement: &Statement<'_>) -> bool {
        if let Some(declaration) = statement.as_declaration() {
            return self.is_type_only(declaration);
        }
        match statement {
            Statement::ImportDeclaration(it) => self.is_type_import(it.span, it.import_kind),
            Statement::ExportAllDeclaration(it) => self.is_type_import(it.span, it.export_kind),
            Statement::ExportFromDeclaration(it) => self.is_type_import(it.span, it.export_kind),
            Statement::ExportNamedDeclaration(it) => it.export_kind == ImportOrExportKind::Type,
            Statement::ExportDeclaration(it) => self.is_type_only(&it.declaration),
            Statement::ExportDefaultDeclaration(it) => match &it.declaration {
                ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => true,
                ExportDefaultDeclarationKind::FunctionDeclaration(it) => it.body.is_none(),
                _ => false,
            },
            Statement::TSExportAssignment(it) => {
                self.refuse(
                    it.span,
                    "`export =` is not a module's export",
                    "write `export default`",
                );
                true
            }
            Statement::TSNamespaceExportDeclaration(it) => {
                self.refuse(it.span, NO_MODULES, ONE_FILE);
                true
            }
            _ => false,
        }
    }

    fn is_type_import(&mut self, span: Span, kind: ImportOrExportKind) -> bool {
        let is_type = kind == ImportOrExportKind::Type;
        if !is_type {
            self.refuse(span, NO_MODULES, ONE_FILE);
        }
        is_type
    }

    fn visit_element_of(&mut self, it: &ClassElement<'_>) -> bool {
        match it {
            ClassElement::MethodDefinition(method) => self.method(method),
            ClassElement::PropertyDefinition(property) => self.property(property),
            ClassElement::TSIndexSignature(_) => true,
            ClassElement::StaticBlock(_) | ClassElement::AccessorProperty(_) => false,
        }
    }

    fn method(&mut self, it: &MethodDefinition<'_>) -> bool {
        let r#abstract = it.r#type == MethodDefinitionType::TSAbstractMethodDefinition;
        if r#abstract || it.value.body.is_none() {
            return true;
        }
        self.blank_modifiers(it.span, it.key.span());
        if it.optional {
            self.blank_mark(closed(self, it.key.span(), it.computed), "?");
        }
        false
    }

    fn property(&mut self, it: &PropertyDefinition<'_>) -> bool {
        let r#abstract = it.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition;
        if r#abstract || it.declare {
            return true;
        }
        self.blank_modifiers(it.span, it.key.span());
        let end = closed(self, it.key.span(), it.computed);
        if it.optional {
            self.blank_mark(end, "?");
        }
        if it.definite {
            self.blank_mark(end, "!");
        }
        false
    }
}

/// Where a class element's name ends, its brackets included.
fn closed(eraser: &Eraser<'_>, key: Span, computed: bool) -> u32 {
    if computed {
        eraser.after(key.end).1
    } else {
        key.end
    }
}

const NO_MODULES: &str = "a policy script is one file and imports nothing";
const ONE_FILE: &str = "copy what you need into the script; `import type` is fine";

fn index(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl<'a> Visit<'a> for Eraser<'_> {
    fn visit_statement(&mut self, it: &Statement<'a>) {
        let span = it.span();
        self.starts.insert(span.start);
        if self.is_type_only_statement(it) {
            self.blank(span.start, span.end, Semicolon::Always);
        } else {
            walk::walk_statement(self, it);
        }
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.r#abstract {
            let token = self.after(it.span.start);
            if self.text(token) == "abstract" {
                self.blank(token.0, token.1, Semicolon::Never);
            }
        }
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last())
            && let Some(word) = self.before(first.span.start)
        {
            self.blank(word.0, last.span.end, Semicolon::Never);
        }
        walk::walk_class(self, it);
    }

    fn visit_class_element(&mut self, it: &ClassElement<'a>) {
        let span = it.span();
        self.starts.insert(span.start);
        if self.visit_element_of(it) {
            self.blank(span.start, span.end, Semicolon::Always);
        } else {
            walk::walk_class_element(self, it);
        }
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            let hint = "declare the property in the class and assign it in the constructor";
            self.refuse(it.span, "a parameter property is more than a type", hint);
        }
        if it.optional {
            self.blank_mark(it.pattern.span().end, "?");
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        let next = self.after(it.span.end);
        let end = if self.text(next) == "," {
            next.1
        } else {
            it.span.end
        };
        self.blank(it.span.start, end, Semicolon::Never);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            self.blank_mark(it.id.span().end, "!");
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_export_specifier(&mut self, it: &ExportSpecifier<'a>) {
        if it.export_kind == ImportOrExportKind::Type {
            let next = self.after(it.span.end);
            let end = if self.text(next) == "," {
                next.1
            } else {
                it.span.end
            };
            self.blank(it.span.start, end, Semicolon::Never);
        }
    }

    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blank(it.span.start, it.span.end, Semicolon::IfLast);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank(it.span.start, it.span.end, Semicolon::Never);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank(it.span.start, it.span.end, Semicolon::IfLast);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end, Semicolon::IfLast);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end, Semicolon::IfLast);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.blank(it.expression.span().end, it.span.end, Semicolon::IfLast);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.refuse(
            it.span,
            "`<Type>value` reads like a comparison once erased",
            "write `value as Type`",
        );
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(
            it.span,
            "decorators are more than types",
            "call the function yourself",
        );
    }

    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        self.refuse(it.span, NO_MODULES, ONE_FILE);
    }
}
