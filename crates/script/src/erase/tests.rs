//! What erasing keeps, erases and refuses.

use super::*;

fn typescript(source: &str) -> Result<String, Problem> {
    erase("a.ts", source, Language::TypeScript)
}

/// The script without spaces at line ends and runs of spaces made one.
fn squeezed(source: &str) -> String {
    let erased = typescript(source).unwrap_or_else(|problem| panic!("{source}: {problem}"));
    assert_eq!(erased.len(), source.len(), "{source}");
    let lines = erased
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A script, and what is left of it, spaces squeezed.
const ERASED: &[(&str, &str)] = &[
    ("let a: number = 1;", "let a = 1;"),
    ("let a!: number;", "let a ;"),
    (
        "const a: Map<string, number[]> = new Map<string, number[]>();",
        "const a = new Map ();",
    ),
    (
        "function f<T extends object>(a: T, b?: string, ...c: any[]): a is T { return !!a }",
        "function f (a , b , ...c ) { return !!a }",
    ),
    (
        "function f(this: Window, a: number) {}",
        "function f( a ) {}",
    ),
    ("function f(this: Window) {}", "function f( ) {}"),
    (
        "function f(a: string): void;\nfunction f(a: any) {}",
        ";\nfunction f(a ) {}",
    ),
    (
        "const f = (a: number, b = 2): number => a + b;",
        "const f = (a , b = 2) => a + b;",
    ),
    (
        "const f = async <T,>(a: T): Promise<T> => a;",
        "const f = async (a ) => a;",
    ),
    (
        "const { a, b }: { a: number; b: string } = c;",
        "const { a, b } = c;",
    ),
    ("try {} catch (e: unknown) {}", "try {} catch (e ) {}"),
    ("a as number;", "a ;"),
    ("(a as any).b!.c![0]!;", "(a ).b .c [0] ;"),
    ("(a as any) = 1;", "(a ) = 1;"),
    (
        "const a = { b: 1 } as const satisfies X;",
        "const a = { b: 1 } ;",
    ),
    (
        "f<string>(a); new A<B>(); f<A>`x`; a?.<T>(b);",
        "f (a); new A (); f `x`; a?. (b);",
    ),
    ("const g = f<string>;", "const g = f ;"),
    ("type A = { a: string } | null;", ";"),
    ("interface A extends B { c(): void }\nf();", ";\nf();"),
    (
        "export type A = 1;\nexport interface B {}\nf();",
        ";\n;\nf();",
    ),
    ("import type { A } from './a';\nf();", ";\nf();"),
    ("export type { A } from './a';\nf();", ";\nf();"),
    (
        "const a = 1, b = 2; export { type T, a, type U, b };",
        "const a = 1, b = 2; export { a, b };",
    ),
    (
        "declare const a: number;\ndeclare function f(): void;\ndeclare enum E { A }\nf();",
        ";\n;\n;\nf();",
    ),
    ("declare global { interface X {} }\nf();", ";\nf();"),
    ("declare module 'x' { export const a: 1; }\nf();", ";\nf();"),
    (
        "class A<T> extends B<T> implements C, D<T> { }",
        "class A extends B { }",
    ),
    (
        "abstract class A { abstract a(): void; abstract b: number; c() {} }",
        "class A { ; ; c() {} }",
    ),
    (
        "class A { private a: number = 1; static readonly b?: string; declare c: number; d!: T; }",
        "class A { ; a = 1; static b ; ; d ; }",
    ),
    (
        "class A { public async a?(): Promise<void> {} protected get b(): number { return 1 } }",
        "class A { ; async a () {} ; get b() { return 1 } }",
    ),
    (
        "class A { [key: string]: any; constructor(); constructor(a?: number) {} }",
        "class A { ; ; constructor(a ) {} }",
    ),
    (
        "class A { readonly = 1; static = 2; declare() {} }",
        "class A { readonly = 1; static = 2; declare() {} }",
    ),
    (
        "class A { override [\"x\"]?: string = 'y' }",
        "class A { ; [\"x\"] = 'y' }",
    ),
    (
        "for (const a of b as C[]) f(a as D)",
        "for (const a of b ) f(a )",
    ),
    (
        "const type = 1, as = 2, satisfies = 3; f(type, as, satisfies);",
        "const type = 1, as = 2, satisfies = 3; f(type, as, satisfies);",
    ),
    (
        "const s = 'a as b: c', t = `x ${y as string} : z`;",
        "const s = 'a as b: c', t = `x ${y } : z`;",
    ),
    (
        "export default abstract class A {}",
        "export default class A {}",
    ),
    ("export abstract class A {}", "export class A {}"),
    (
        "const a = class<T> { get b(): T { return 1 } set b(c: T) {} }",
        "const a = class { get b() { return 1 } set b(c ) {} }",
    ),
    ("f<Array<Map<A, Set<B>>>>(x) >> 1;", "f (x) >> 1;"),
    ("let a = b as unknown as C[][];", "let a = b ;"),
    (
        "async function* f<T>(a: T): AsyncGenerator<T> { yield a!; }",
        "async function* f (a ) { yield a ; }",
    ),
    (
        "const o = { m<T>(this: X, a?: T): void {}, get p(): T { return 1 } };",
        "const o = { m ( a ) {}, get p() { return 1 } };",
    ),
    (
        "label: for (let i: number = 0; i < 3; i++) continue label;",
        "label: for (let i = 0; i < 3; i++) continue label;",
    ),
    (
        "let f: new (a: number) => B = C, g: (a: number) => void;",
        "let f = C, g ;",
    ),
    ("a ? (b as C) : (d): e => f;", "a ? (b ) : (d) => f;"),
    ("a < b; c > (d);", "a < b; c > (d);"),
];

#[test]
fn types_are_erased_and_nothing_else() {
    for (source, want) in ERASED {
        assert_eq!(squeezed(source), *want, "{source}");
    }
}

#[test]
fn a_line_does_not_become_the_continuation_of_an_erased_type() {
    for (source, want) in [
        ("const a = b as C\n(d)", "const a = b;\n(d)"),
        ("a = b satisfies C\n[d].e()", "a = b;\n[d].e()"),
        ("let a: C\n(d)", "let a;\n(d)"),
        ("a\ntype B = 1\n(c)", "a\n;\n(c)"),
        ("f()\ninterface B {}\n`c`", "f()\n;\n`c`"),
        (
            "class A { a = b as C\n['d'] = 1 }",
            "class A { a = b;\n['d'] = 1 }",
        ),
        (
            "class A { a = 1\nprivate ['d'] = 1 }",
            "class A { a = 1\n; ['d'] = 1 }",
        ),
        ("class A { a: T\n*b() {} }", "class A { a;\n*b() {} }"),
    ] {
        assert_eq!(squeezed(source).replace(" ;", ";"), want, "{source}");
    }
}

#[test]
fn places_and_text_are_kept() {
    let source = "type Größe = 'ü';\r\nconst a: Größe =\n  'ü' as Größe; throw a;\n";
    let erased = typescript(source).unwrap();
    assert_eq!(erased.len(), source.len());
    assert_eq!(erased.find("throw"), source.find("throw"));
    assert_eq!(erased.matches('\n').count(), 3);
    assert!(erased.contains("'ü'"));
}

#[test]
fn what_is_more_than_a_type_is_refused_with_its_place_and_the_fix() {
    for (source, place, message, hint) in [
        (
            "let a\nenum A { B }",
            (2, 1),
            "an `enum` is more than a type",
            "write an object",
        ),
        (
            "export const enum A { B }",
            (1, 8),
            "an `enum` is more than a type",
            "write an object",
        ),
        (
            "namespace A { export const b = 1 }",
            (1, 1),
            "a `namespace`",
            "plain functions",
        ),
        (
            "class A { constructor(private a: number) {} }",
            (1, 23),
            "a parameter property",
            "assign it",
        ),
        ("@d class A {}", (1, 1), "decorators", "call the function"),
        ("const a = <number>b", (1, 11), "`<Type>value`", "as Type"),
        (
            "import { a } from 'b'",
            (1, 1),
            "imports nothing",
            "import type",
        ),
        ("import 'b'", (1, 1), "imports nothing", "copy"),
        (
            "import fs = require('fs')",
            (1, 1),
            "imports nothing",
            "copy",
        ),
        ("export * from 'b'", (1, 1), "imports nothing", "copy"),
        ("export { a } from 'b'", (1, 1), "imports nothing", "copy"),
        ("const a = import('b')", (1, 11), "imports nothing", "copy"),
        ("export = a", (1, 1), "`export =`", "export default"),
        ("let a\nconst b = 1 +;", (2, 14), "", ""),
        ("const f = (a):\n number => a", (2, 9), "", "line"),
    ] {
        let problem = typescript(source).expect_err(source);
        assert_eq!((problem.line, problem.column), place, "{source}: {problem}");
        assert!(problem.message.contains(message), "{source}: {problem}");
        assert!(
            problem.hint().contains(hint),
            "{source}: {}",
            problem.hint()
        );
        assert!(
            !problem.hint().is_empty() && !problem.text.is_empty(),
            "{source}"
        );
    }
}

#[test]
fn types_in_javascript_are_errors() {
    let problem = erase("a.js", "let a: number = 1", Language::JavaScript).unwrap_err();
    assert_eq!((problem.line, problem.column), (1, 6), "{problem}");
    let plain = "export default (r) => r.paths.length > 3 ? 'deny' : 'pass'\n";
    assert_eq!(erase("a.js", plain, Language::JavaScript).unwrap(), plain);
}
