//! Sources that are accepted, their code, and the errors of those that are refused.

use super::*;

fn code(source: &str) -> String {
    strip(source, &Limits::default()).unwrap().code
}

fn refused(source: &str) -> (String, u32, u32) {
    match strip(source, &Limits::default()) {
        Err(ScriptFault::Invalid { message, line, column }) => (message, line, column),
        other => panic!("{source:?} gave {other:?}"),
    }
}

#[test]
fn types_go_and_meaning_stays() {
    let stripped = code("interface A { x: number }\nconst a: A = { x: 1 } as A;\nreturn (a satisfies A).x!;");
    assert!(!stripped.contains("interface") && !stripped.contains(": A"), "{stripped}");
    assert!(stripped.contains("return a.x"), "{stripped}");
}

#[test]
fn plain_javascript_passes_and_return_and_await_stand_at_the_top() {
    let stripped = code("const r = await tools.a.b({ c: 1 });\nif (!r) return null;\nreturn r;");
    assert!(stripped.contains("await tools.a.b({ c: 1 })"), "{stripped}");
}

#[test]
fn enums_namespaces_and_parameter_properties_become_javascript() {
    assert!(code("enum E { A, B = 5, C }\nreturn E.C;").contains("E[E["));
    assert!(code("namespace N { export const x = 1 }\nreturn N.x;").contains("(function("));
    assert!(code("class P { constructor(private x: number) {} }\nreturn new P(1);").contains("this.x = x"));
}

#[test]
fn import_and_export_are_refused_where_they_stand() {
    for (source, line, column, word) in [
        ("const a = 1;\n  import fs from 'fs';", 2, 3, "import"),
        ("import type { A } from './a';\nreturn 1;", 1, 1, "import"),
        ("return 1;\nexport const x = 1;", 2, 1, "export"),
        ("export default 1;", 1, 1, "export"),
        ("const m = await import('fs');", 1, 17, "import"),
        ("return import.meta.url;", 1, 8, "import"),
    ] {
        let (message, at_line, at_column) = refused(source);
        assert!(message.contains(word), "{source}: {message}");
        assert_eq!((at_line, at_column), (line, column), "{source}");
    }
}

#[test]
fn a_position_counts_lines_and_characters_from_1() {
    let (_, line, column) = refused("const ok = 1;\nconst s = '\u{e4}\u{1f600}'; const = 2;");
    assert_eq!((line, column), (2, 23), "not bytes, not UTF-16");
}

#[test]
fn what_only_a_second_look_finds_is_refused_too() {
    for source in
        ["let a = 1; let a = 2;", "break;", "function f() { await 1 }", "delete x;", "const r = /(/;"]
    {
        assert!(!refused(source).0.is_empty());
    }
}

#[test]
fn a_source_may_be_as_long_as_its_bound_and_no_longer() {
    let limits = Limits { source_bytes: 20, ..Limits::default() };
    assert!(strip(&format!("//{}", "x".repeat(18)), &limits).is_ok());
    assert_eq!(
        strip(&format!("//{}", "x".repeat(19)), &limits),
        Err(ScriptFault::TooLong { bytes: 21, bound: 20 })
    );
}

#[test]
fn nesting_has_a_bound_with_a_clear_error() {
    let nested = |n: usize| format!("return {}{};", "[".repeat(n), "]".repeat(n));
    assert!(strip(&nested(MAX_NESTING), &Limits::default()).is_ok());
    assert!(refused(&nested(MAX_NESTING + 1)).0.contains("nested"));
}
