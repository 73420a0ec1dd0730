//! Schemas that nobody's derive would write: hostile, deep, circular, random.

use std::borrow::Cow;

use countersign_sdk::Effects;
use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::schema::{MAX_DEFINITIONS, MAX_DEPTH};
use super::text::MAX_LITERAL_CHARS;
use super::types::MAX_MEMBERS;
use super::{Entry, text_of};

fn entry<'a>(path: &'a str, input: &'a Value, output: &'a Value) -> Entry<'a> {
    let effects = Effects::default();
    let (input, output) = (Cow::Borrowed(input), Cow::Borrowed(output));
    Entry { path, name: "", description: "", effects, remember: None, input, output }
}

fn of(input: &Value, output: &Value) -> String {
    text_of([entry("a.b", input, output)].into_iter())
}

/// The whole text of one output type, without what stands around it.
fn output(schema: &Value) -> String {
    let text = of(&json!({ "additionalProperties": false }), schema);
    assert_parses(&text);
    let (_, rest) = text.split_once("Promise<").unwrap();
    let (ty, _) = rest.split_once(">;\n  };\n};").unwrap();
    ty.to_owned()
}

fn input(schema: &Value) -> String {
    let text = of(schema, &json!({ "type": "null" }));
    assert_parses(&text);
    let (_, rest) = text.split_once("b(").unwrap();
    let (ty, _) = rest.split_once("): Promise<null>;").unwrap();
    ty.to_owned()
}

#[track_caller]
fn assert_parses(text: &str) {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, text, SourceType::ts()).parse();
    assert!(!parsed.panicked && parsed.diagnostics.is_empty(), "{:?}\n{text}", parsed.diagnostics);
}

#[test]
fn each_keyword_has_its_type() {
    let cases = [
        (json!(true), "unknown"),
        (json!(false), "never"),
        (json!({}), "unknown"),
        (json!(7), "unknown"),
        (json!({ "type": "integer" }), "number"),
        (json!({ "type": ["null", "string"] }), "string | null"),
        (json!({ "type": "string", "nullable": true }), "string | null"),
        (json!({ "type": "object" }), "Record<string, unknown>"),
        (json!({ "type": "object", "additionalProperties": false }), "{}"),
        (json!({ "type": "object", "additionalProperties": { "type": "number" } }), "Record<string, number>"),
        (json!({ "patternProperties": { "^x": { "type": "null" } } }), "Record<string, null>"),
        (json!({ "type": "array" }), "unknown[]"),
        (json!({ "items": { "type": ["string", "null"] } }), "(string | null)[]"),
        (json!({ "enum": ["a", 1, -1.5, null, true] }), "\"a\" | 1 | -1.5 | true | null"),
        (json!({ "enum": [true, false] }), "boolean"),
        (json!({ "enum": [] }), "never"),
        (json!({ "const": { "a": [1] } }), "{ a: [1] }"),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "string" }, false] }), "string"),
        (json!({ "oneOf": [{ "type": "string" }, true] }), "unknown"),
        (json!({ "allOf": [true, { "type": "string" }] }), "string"),
        (json!({ "allOf": [{ "type": "string" }, { "$ref": "#/nowhere" }] }), "string"),
        (json!({ "$ref": "https://example.org/x.json" }), "unknown"),
        (json!({ "$ref": "#/%zz" }), "unknown"),
        (json!({ "$ref": "#/$defs/a~1b%20c", "$defs": { "a/b c": { "type": "null" } } }), "null"),
        (json!({ "required": ["z", "a", "z"] }), "{ z: unknown; a: unknown }"),
        (
            json!({ "properties": { "a": { "type": "null" } }, "additionalProperties": true }),
            "{ a?: null; [key: string]: unknown }",
        ),
        (
            json!({ "required": ["a"], "properties": { "a": { "type": "null" } }, "additionalProperties": { "type": "string" } }),
            "{ a: null } & Record<string, string>",
        ),
        (
            json!({ "prefixItems": [{ "type": "string" }, { "type": ["null", "string"] }], "minItems": 1, "items": false }),
            "[string, (string | null)?]",
        ),
        (
            json!({ "prefixItems": [true], "minItems": 1, "items": { "type": "null" } }),
            "[unknown, ...null[]]",
        ),
        (json!({ "items": [{ "type": "null" }], "minItems": 1, "additionalItems": false }), "[null]"),
        (
            json!({ "allOf": [
                { "properties": { "a": { "type": "null" } }, "required": ["a"] },
                { "properties": { "b": { "type": "null" } } }
            ], "oneOf": [{ "required": ["x"] }, { "required": ["y"] }] }),
            "({ x: unknown } | { y: unknown }) & { a: null; b?: null }",
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(output(&schema), expected, "{schema}");
    }
}

#[test]
fn what_has_a_default_may_be_left_out_of_input_and_is_there_in_output() {
    let schema = json!({ "type": "object", "required": ["a", "b"], "properties": {
        "a": { "type": "number", "default": 3 }, "b": { "type": ["null", "number"], "default": null } } });
    assert_eq!(input(&schema), "input: { b: number | null; /** Default: 3. */ a?: number }");
    assert_eq!(output(&schema), "{ a: number; b: number | null }");
}

#[test]
fn an_argument_that_may_be_empty_may_be_left_out() {
    assert_eq!(input(&json!({ "type": "object", "additionalProperties": false })), "input?: {}");
    assert_eq!(input(&json!({ "properties": { "a": { "type": "null" } } })), "input?: { a?: null }");
    assert_eq!(input(&json!({ "required": ["a"] })), "input: { a: unknown }");
}

#[test]
fn bounds_stand_in_the_comments_of_input_only() {
    let bounds = [
        (json!({ "type": "integer", "minimum": 0, "maximum": 9 }), "An integer from 0 to 9."),
        (json!({ "type": "number", "exclusiveMinimum": 0 }), "A number more than 0."),
        (
            json!({ "type": "number", "maximum": 1.5, "multipleOf": 0.5 }),
            "A number up to 1.5 in steps of 0.5.",
        ),
        (json!({ "type": "string", "minLength": 1, "maxLength": 1 }), "Exactly 1 character."),
        (
            json!({ "type": "string", "maxLength": 20, "pattern": "^a*/" }),
            "At most 20 characters. Matches ^a*\\/.",
        ),
        (
            json!({ "type": "array", "minItems": 2, "items": { "type": "integer" } }),
            "At least 2 items. Each: An integer.",
        ),
        (json!({ "type": "object", "minProperties": 2, "maxProperties": 3 }), "2 to 3 entries."),
        (json!({ "type": "string", "format": "uri", "description": "Where" }), "Where. Format: uri."),
    ];
    for (schema, words) in bounds {
        let whole = json!({ "required": ["a"], "properties": { "a": schema } });
        let shown = input(&whole);
        assert!(shown.contains(&format!("/** {words} */")), "{shown}");
        assert_eq!(output(&whole).contains("/**"), words.contains("Format"), "{whole}");
    }
}

#[test]
fn no_text_leaves_its_comment_or_literal_or_hides() {
    const EVIL: &str = "*/ }; \u{202e}evil\u{200b}\u{1b}[2J\u{2028}\r\n\n*/`${x}`\\\"'</script>\0";
    let schema = json!({ "description": EVIL, "title": EVIL, "required": [EVIL], "properties": {
        EVIL: { "description": EVIL, "enum": [EVIL, "b"], "default": EVIL },
        "x": { "$ref": "#/$defs/*~1", "description": EVIL, "pattern": EVIL },
        "y": { "$ref": "#/$defs/*~1", "format": EVIL },
    }, "$defs": { "*/": { "description": EVIL, "type": "object" } } });
    let hostile = Entry { name: EVIL, description: EVIL, ..entry("a.b", &schema, &schema) };
    let text = text_of([hostile].into_iter());
    assert_parses(&text);
    assert!(!text.contains(|c: char| c != '\n' && c.is_control()), "{text:?}");
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{2028}']), "{text:?}");
    assert_eq!(text.matches("*/").count(), text.matches("/**").count(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn names_that_are_no_identifiers_are_quoted() {
    let names = ["a-b", "", "1a", "é", "a b", "new", "class", "$_1", "__proto__", "constructor"];
    let schema = json!({ "required": names });
    assert_eq!(
        output(&schema),
        "{\n      \"a-b\": unknown;\n      \"\": unknown;\n      \"1a\": unknown;\n      \"é\": unknown;\n      \
         \"a b\": unknown;\n      new: unknown;\n      class: unknown;\n      $_1: unknown;\n      \
         __proto__: unknown;\n      constructor: unknown;\n    }"
    );
}

#[test]
fn everything_has_a_bound() {
    let long = "x".repeat(100_000);
    let many: Vec<String> = (0..1000).map(|n| format!("v{n}")).collect();
    let properties: serde_json::Map<String, Value> = many.iter().map(|n| (n.clone(), json!({}))).collect();
    let objects: Vec<Value> = many.iter().map(|n| json!({ "required": [n] })).collect();
    assert_eq!(output(&json!({ "enum": many })), "string");
    assert_eq!(output(&json!({ "const": long })), "string");
    let longest = "y".repeat(MAX_LITERAL_CHARS);
    assert_eq!(output(&json!({ "const": longest })), format!("\"{longest}\""));
    assert_eq!(output(&json!({ "anyOf": objects })), "unknown");
    assert_eq!(output(&json!({ "required": [long] })), "{ [key: string]: unknown }");
    assert_eq!(output(&json!({ "properties": properties })).matches("?: unknown").count(), MAX_MEMBERS);
    assert!(output(&json!({ "prefixItems": vec![true; 1000] })).ends_with("...unknown[],\n    ]"));
    let described =
        json!({ "description": long, "properties": { "a": { "description": long, "default": long } } });
    let wordy = Entry { name: &long, description: &long, ..entry("a.b", &described, &described) };
    let text = text_of([wordy].into_iter());
    assert_parses(&text);
    assert!(text.len() < 10_000 && text.contains('…'), "{}", text.len());
}

#[test]
fn what_is_too_deep_is_unknown() {
    let nested =
        |levels: usize| (0..levels).fold(json!({ "type": "null" }), |inner, _| json!({ "items": inner }));
    assert_eq!(output(&nested(MAX_DEPTH - 1)), format!("null{}", "[]".repeat(MAX_DEPTH - 1)));
    assert_eq!(output(&nested(MAX_DEPTH)), format!("unknown{}", "[]".repeat(MAX_DEPTH)));
    output(&nested(1_000));
    let mut deep = json!(1);
    for _ in 0..1_000 {
        deep = json!([deep]);
    }
    output(&json!({ "const": deep }));
}

#[test]
fn definitions_that_chain_without_end_end() {
    let chained: serde_json::Map<String, Value> = (0..5_000)
        .map(|n| (n.to_string(), json!({ "properties": { "x": { "$ref": format!("#/$defs/{}", n + 1) } } })))
        .collect();
    let text = of(&json!({ "$ref": "#/$defs/0", "$defs": chained }), &json!(true));
    assert_parses(&text);
    assert!(text.contains("x?: unknown"), "{text}");
    let twice: serde_json::Map<String, Value> = (0..5_000)
        .map(|n| (n, json!({ "$ref": format!("#/$defs/{}", n + 1) })))
        .map(|(n, next)| (n.to_string(), json!({ "properties": { "x": next, "y": next } })))
        .collect();
    let text = of(&json!(true), &json!({ "properties": { "a": { "$ref": "#/$defs/0" } }, "$defs": twice }));
    assert_parses(&text);
    // The document itself is one, and the first is used only once.
    assert_eq!(text.lines().filter(|line| line.starts_with("type ")).count(), MAX_DEFINITIONS - 2, "{text}");
}

#[test]
fn circles_are_named_and_empty_ones_are_cut() {
    let tree = json!({ "title": "Tree", "properties": { "of": { "items": { "$ref": "#" } } } });
    let text = of(&json!({}), &tree);
    assert!(text.contains("Promise<Tree>") && text.contains("type Tree = { of?: Tree[] };"), "{text}");
    let empty = json!({ "$ref": "#/$defs/a", "$defs": {
        "a": { "anyOf": [{ "$ref": "#/$defs/b" }, { "type": "null" }] }, "b": { "$ref": "#/$defs/a" } } });
    assert_eq!(output(&empty), "unknown");
    assert_eq!(output(&json!({ "$ref": "#" })), "unknown");
}

#[test]
fn a_name_means_one_type_and_a_type_of_several_tools_one_name() {
    let with = |field: &str| {
        json!({ "prefixItems": [{ "$ref": "#/$defs/date" }, { "$ref": "#/$defs/promise" }, { "$ref": "#/$defs/promise" }],
            "$defs": { "date": { "required": ["d"] }, "promise": { "required": [field] } } })
    };
    let (one, two, empty) = (with("x"), with("y"), json!({ "required": ["i"] }));
    let all = [entry("a.one", &empty, &one), entry("a.two", &two, &two), entry("a.same", &empty, &one)];
    let text = text_of(all.into_iter());
    assert_parses(&text);
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("type ")).collect();
    assert_eq!(
        types,
        [
            "type AOnePromiseType = { x: unknown };",
            "type ATwoPromiseType = { y: unknown };",
            "type DateType = { d: unknown };"
        ]
    );
    let both = json!({ "prefixItems": [{ "$ref": "#/$defs/N" }, { "$ref": "#/$defs/N" }],
        "$defs": { "N": { "required": ["a"], "properties": { "a": { "default": 1 } } } } });
    let text = of(&both, &both);
    assert!(text.contains("type ABN = { /** Default: 1. */ a?: unknown };"), "{text}");
    assert!(text.contains("type ABOutputN = { a: unknown };"), "{text}");
}

#[test]
fn definitions_that_look_alike_and_refer_to_different_ones_stay_apart() {
    let with = |leaf: &str| {
        let link = |to: &str| json!({ "required": ["n"], "properties": { "n": { "$ref": format!("#/$defs/{to}") } } });
        json!({ "prefixItems": [{ "$ref": "#/$defs/A" }, { "$ref": "#/$defs/A" }],
            "$defs": { "A": link("B"), "B": link("C"), "C": { "required": [leaf] } } })
    };
    let (one, two) = (with("x"), with("y"));
    let text = text_of([entry("a.one", &json!({}), &one), entry("a.two", &json!({}), &two)].into_iter());
    assert_parses(&text);
    assert!(text.contains("type AOneA = { n: { n: { x: unknown } } };"), "{text}");
    assert!(text.contains("type ATwoA = { n: { n: { y: unknown } } };"), "{text}");
}

#[test]
fn a_path_that_is_tool_and_namespace_is_both() {
    let (yes, no) = (json!({ "type": "object", "additionalProperties": false }), json!({ "type": "null" }));
    let text = text_of(
        [entry("a.new", &yes, &no), entry("a.new.delete", &yes, &no), entry("b.new", &yes, &no)].into_iter(),
    );
    assert_parses(&text);
    let expected = "  a: {\n    new: {\n      (input?: {}): Promise<null>;\n      delete(input?: {}): Promise<null>;\n    };\n  };\n  \
                    b: {\n    \"new\"(input?: {}): Promise<null>;\n  };\n";
    assert!(text.contains(expected), "{text}");
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[\"'`\\\\*/{}<>\\[\\]⟦\u{202e}\n ]{0,12}",
        ".{0,40}",
        Just("new".to_owned()),
        Just("Promise".to_owned())
    ]
}

/// Schemas, and things that only look like them, that refer to one another.
fn schema() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec!["string", "integer", "null", "object", "array", "boolean", "zzz"]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(|b| json!(b)),
        (kind, word()).prop_map(|(kind, d)| json!({ "type": kind, "description": d, "minLength": 1 })),
        prop::collection::vec(word(), 0..6).prop_map(|values| json!({ "enum": values })),
        (0..4).prop_map(|n| json!({ "$ref": format!("#/$defs/{n}") })),
        Just(json!({ "$ref": "#" })),
        (any::<f64>(), word()).prop_map(|(n, d)| json!({ "const": n, "default": d })),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let several = prop::collection::vec(inner.clone(), 0..5);
        let named = prop::collection::btree_map(word(), inner.clone(), 0..6);
        let combined = prop::sample::select(vec!["anyOf", "oneOf", "allOf", "prefixItems", "items", "type"]);
        prop_oneof![
            (combined, several, word()).prop_map(|(k, list, d)| json!({ k: list, "description": d })),
            (named, inner.clone(), word()).prop_map(|(properties, more, d)| {
                let required: Vec<String> = properties.keys().step_by(2).cloned().collect();
                json!({ "properties": properties, "required": required, "additionalProperties": more, "description": d })
            }),
            (inner.clone(), word()).prop_map(|(items, d)| json!({ "type": ["array", "null"], "items": items, "description": d })),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "anyOf": [a], "additionalProperties": b, "nullable": true })),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    (schema(), prop::collection::vec(schema(), 4)).prop_map(|(mut root, definitions)| {
        if let Some(root) = root.as_object_mut() {
            let definitions = definitions.into_iter().enumerate().map(|(n, s)| (n.to_string(), s));
            root.insert("$defs".into(), Value::Object(definitions.collect()));
        }
        root
    })
}

/// Whether brackets pair up outside comments and literals.
fn balanced(text: &str) -> bool {
    let (mut open, mut rest) = (Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("/**") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
            continue;
        }
        rest = rest.strip_prefix(c).unwrap_or_default();
        match c {
            '"' => rest = after_literal(rest),
            '{' | '(' | '[' => open.push(c),
            '}' if open.pop() != Some('{') => return false,
            ')' if open.pop() != Some('(') => return false,
            ']' if open.pop() != Some('[') => return false,
            _ => {}
        }
    }
    open.is_empty()
}

fn after_literal(text: &str) -> &str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or("", |end| &text[end + 1..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn whatever_the_schemas_say_the_text_is_typescript(one in document(), two in document(), words in word()) {
        let first = Entry { name: &words, description: &words, ..entry("a.b", &one, &two) };
        let text = text_of([first, entry("a.b.c", &two, &one), entry("a.new", &two, &two)].into_iter());
        assert_parses(&text);
        prop_assert!(balanced(&text), "{}", text);
        prop_assert!(!text.contains('\u{202e}'), "{}", text);
    }
}
