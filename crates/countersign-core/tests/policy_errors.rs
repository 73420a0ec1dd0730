//! What a file with wrong rules is told: everything that is wrong, each with its line and what to write instead.

use countersign_core::policy::{MAX_RULES, MAX_WHEN_BYTES, Policy};

fn errors(text: &str) -> Vec<String> {
    match Policy::from_toml(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.to_string().lines().map(str::to_owned).collect(),
    }
}

/// The reasons given for one rule that matches everything, asks, and has these lines besides.
fn reasons(lines: &str) -> Vec<String> {
    let text = format!("[[rule]]\nmatch = 'a.*'\neffect = 'ask'\n{lines}\n");
    match Policy::from_toml(&text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.errors().iter().map(|error| error.reason.clone()).collect(),
    }
}

fn when_reasons(when: &str) -> Vec<String> {
    reasons(&format!("when = '''{when}'''"))
}

#[test]
fn everything_that_is_wrong_is_said_at_once_in_the_order_of_the_file() {
    let text = r#"listen = 3
rule_of_somebody_else = true

[[rule]]
match = "github.iss*"
efect = "ask"
expires = "soon"

[[rule]]
match = "*"
when = 'arg.repo == "x"'
effect = "block"

[[rule]]
effect = "deny"
match = "a.*"
remember = "call"
examples = { matches = [
  'a.b',
  'b.c',
], misses = ['a.b'], other = [] }
"#;
    assert_eq!(
        errors(text),
        [
            "line 4, rule 1: effect is missing: what becomes of the call: effect = \"allow\", \"ask\" or \"deny\"",
            "line 5, rule 1: segment \"iss*\" of pattern \"github.iss*\" mixes a wildcard with other text; a segment is a name, \"*\" (one segment) or \"**\" (one or more); to match inside a segment write when = 'tool.path.startsWith(\"…\")'",
            "line 6, rule 1: a rule has no key `efect`; did you mean `effect`?",
            "line 7, rule 1: expires: \"soon\" is no duration; write a whole number and one of s, m, h, d, such as \"90s\", \"15m\", \"24h\" or \"7d\"",
            "line 10, rule 2: \"*\" stands for one segment and every path has at least two; write \"**\" for every tool",
            "line 11, rule 2: `arg` is not known here; did you mean `args`?",
            "line 12, rule 2: \"block\" is no effect; there are \"allow\", \"ask\" and \"deny\"",
            "line 17, rule 3: remember has no meaning where effect is \"deny\": only \"ask\" has an answer to wait for",
            "line 20, rule 3: example 'b.c' should match, but \"a.*\" does not match its path",
            "line 21, rule 3: examples has no key `other`; there are matches and misses",
            "line 21, rule 3: example 'a.b' should not match, but it does",
        ]
    );
}

#[test]
fn the_caller_can_put_the_name_of_the_file_in_front() {
    let errors = Policy::from_toml("\n[[rule]]\nmatch = 'a.b'\neffect = 'maybe'\n").unwrap_err();
    let prefixed: Vec<String> =
        errors.iter().map(|(line, reason)| format!("countersign.toml:{line}: {reason}")).collect();
    assert_eq!(
        prefixed,
        ["countersign.toml:4: rule 1: \"maybe\" is no effect; there are \"allow\", \"ask\" and \"deny\""]
    );
    assert_eq!((errors.errors()[0].line, errors.errors()[0].rule), (4, Some(1)));
}

#[test]
fn a_file_that_is_no_toml_is_told_each_place_where_it_is_not() {
    assert_eq!(
        errors("listen = \n[[rule]]\nmatch = 'a\neffect = 'ask'\n"),
        [
            "line 1: not TOML: string values must be quoted, expected literal string",
            "line 3: not TOML: invalid literal string, expected `'`",
        ]
    );
    assert_eq!(
        errors("[[rule]]\nmatch = 'a.b'\nmatch = 'b.c'\neffect = 'ask'\n"),
        ["line 3: not TOML: duplicate key"]
    );
}

#[test]
fn a_rule_is_a_table_in_a_list_and_its_values_are_strings() {
    assert_eq!(
        errors("[rule]\nmatch = 'a.b'\n"),
        ["line 1: rules are written as [[rule]], with two brackets"]
    );
    assert_eq!(errors("\nrule = 3\n"), ["line 2: rules are written as [[rule]], with two brackets"]);
    assert_eq!(errors("rule = ['a.b']\n"), ["line 1, rule 1: a rule is a table, not a string"]);
    assert_eq!(
        errors("[[rule]]\nmatch = 1\nwhen = true\neffect = ['ask']\n"),
        [
            "line 2, rule 1: match is an integer; it must be a string",
            "line 3, rule 1: when is a boolean; it must be a string",
            "line 4, rule 1: effect is an array; it must be a string",
        ]
    );
    assert_eq!(
        errors("\n\n[[rule]]\n"),
        [
            "line 3, rule 1: match is missing: the tools it speaks of, such as match = \"github.issues.*\"",
            "line 3, rule 1: effect is missing: what becomes of the call: effect = \"allow\", \"ask\" or \"deny\"",
        ]
    );
    assert_eq!(
        reasons("unless = 'x'"),
        ["a rule has no key `unless`; there are match, when, effect, expires, remember, reason and examples"]
    );
}

#[test]
fn durations_and_reasons_are_bounded() {
    for (lines, says) in [
        ("expires = '0h'", "expires: \"0h\" is no time at all; the shortest duration is \"1s\""),
        ("expires = '366d'", "expires: \"366d\" is too long; the longest duration is \"365d\""),
        ("expires = 60", "expires is an integer; it must be a string"),
        ("remember = 'forever'", "remember cannot be \"forever\"; there are \"call\" and \"session\""),
        ("reason = ' '", "the reason is empty; leave it out"),
    ] {
        assert_eq!(reasons(lines), [says], "{lines}");
    }
    assert_eq!(reasons(&format!("reason = '{}'", "x".repeat(1000))), [""; 0]);
    assert_eq!(
        reasons(&format!("reason = '{}'", "x".repeat(1001))),
        ["the reason has 1001 bytes; at most 1000"]
    );
}

#[test]
fn expiry_and_memory_have_meaning_only_where_a_person_is_asked() {
    for effect in ["allow", "deny"] {
        let text =
            format!("[[rule]]\nmatch = 'a.*'\nexpires = '1h'\nremember = 'call'\neffect = '{effect}'\n");
        let says = |line: usize, key: &str| {
            format!(
                "line {line}, rule 1: {key} has no meaning where effect is \"{effect}\": only \"ask\" has an answer to wait for"
            )
        };
        assert_eq!(errors(&text), [says(3, "expires"), says(4, "remember")]);
    }
}

#[test]
fn at_most_a_thousand_rules() {
    let rule = "[[rule]]\nmatch = 'a.*'\neffect = 'ask'\n";
    assert_eq!(errors(&rule.repeat(MAX_RULES)), [""; 0]);
    assert_eq!(errors(&rule.repeat(MAX_RULES + 2)), ["line 3001: there are 1002 rules; at most 1000"]);
}

#[test]
fn a_predicate_with_bad_syntax_is_told_where() {
    for (when, says) in [
        ("args.x ==", "when is no CEL at character 10: mismatched input the end"),
        ("args.x = 3", "when is no CEL at character 8: token recognition error at: '= '"),
        ("args.x == 'a' and true", "when is no CEL at character 15: mismatched input 'and'"),
        ("args.x == \"a", "when is no CEL at character 11: token recognition error at: '\"a'"),
        ("has(args)", "when is no CEL at character 5: invalid argument to has() macro"),
        ("args.`x` == 1", "when is no CEL at character 5: unsupported syntax: '`'"),
        ("  ", "when is empty; leave it out to match every call"),
        ("// nothing", "when is no CEL at character 11: mismatched input the end"),
    ] {
        assert_eq!(when_reasons(when), [says], "{when}");
    }
}

#[test]
fn an_error_in_a_predicate_of_many_lines_names_its_own_line() {
    let text = "[[rule]]\nmatch = 'a.*'\neffect = 'ask'\nwhen = '''\nargs.x == 1 &&\n  args.y = 2'''\n";
    assert_eq!(
        errors(text),
        ["line 6, rule 1: when is no CEL at line 2, character 10: token recognition error at: '= '"]
    );
    let text = "[[rule]]\nmatch = 'a.*'\neffect = 'ask'\nwhen = \"\"\"args.x == 1 &&\n  args.y = 2\"\"\"\n";
    assert!(errors(text)[0].starts_with("line 5, rule 1: "), "{:?}", errors(text));
}

#[test]
fn unknown_names_are_refused_with_the_name_that_was_probably_meant() {
    for (when, says) in [
        ("agrs.x == 1", "`agrs` is not known here; did you mean `args`?"),
        ("request.x == 1", "`request` is not known here; there are args, tool, principal and session"),
        ("user == 'ann'", "`user` is not known here; there are args, tool, principal and session"),
        ("args.l.all(item, itm > 1)", "`itm` is not known here; did you mean `item`?"),
        (
            "args.l.all(x, true) && x == 1",
            "`x` is not known here; there are args, tool, principal and session",
        ),
        (".foo == 1", "`foo` is not known here; there are args, tool, principal and session"),
        ("tool.pth == 'a.b'", "tool has no `pth`; did you mean `path`?"),
        (
            "tool.name == 'a.b'",
            "tool has no `name`; there are path, source, destructive, idempotent, openWorld, readOnly and effect",
        ),
        ("tool['pth'] == 'a.b'", "tool has no `pth`; did you mean `path`?"),
        ("tool.open_world", "tool has no `open_world`; did you mean `openWorld`?"),
        ("tool.read_only", "tool has no `read_only`; did you mean `readOnly`?"),
        ("has(principal.role)", "principal has no `role`; did you mean `roles`?"),
        ("session.user == 'x'", "session has no `user`; there are id"),
        ("args.x.startswith('a')", "there is no function `startswith`; did you mean `startsWith`?"),
        (
            "len(args.x) > 1",
            "there is no function `len`; there are size, contains, startsWith, endsWith, matches, int, uint, double, string, bytes, bool, dyn, type, value, hasValue, orValue, or, has, all, exists, exists_one, existsOne, map, filter, optMap and optFlatMap",
        ),
        ("_f(args.x, 1)", "there is no function `_f`; "),
        ("args.l.exist(x, x > 1)", "there is no function `exist`; did you mean `exists`?"),
        ("all(args.l, x, x > 1)", "`all` is written as in args.list.all(x, x > 0)"),
        ("args.l.exists(x)", "`exists` is written as in args.list.exists(x, x > 0)"),
        ("has(args.x, args.y)", "`has` is written as in has(args.name)"),
        (
            "optional.some(1).hasValue()",
            "there is no optional.some with 1 arguments; there are optional.of(x), optional.ofNonZeroValue(x) and optional.none()",
        ),
        ("Foo{a: 1} == 1", "there is no type `Foo` to make a value of"),
        ("args.l.all(args, args > 1)", "a loop cannot call its variable `args`, which is taken"),
    ] {
        let reasons = when_reasons(when);
        assert!(reasons.first().is_some_and(|reason| reason.starts_with(says)), "{when}: {reasons:?}");
    }
}

#[test]
fn all_that_is_wrong_with_one_predicate_is_said() {
    assert_eq!(
        when_reasons("arg.x == 1 && tools.path == 'x' && args.x.startwith('a')"),
        [
            "`arg` is not known here; did you mean `args`?",
            "`tools` is not known here; did you mean `tool`?",
            "there is no function `startwith`; did you mean `startsWith`?",
        ]
    );
    assert_eq!(
        when_reasons("args.l.exist(x, x > 1) && size(arg.x) > 1"),
        [
            "there is no function `exist`; did you mean `exists`?",
            "`arg` is not known here; did you mean `args`?",
        ],
        "the variable of a misspelt macro is no mistake of its own"
    );
}

#[test]
fn a_predicate_that_can_only_fail_is_refused() {
    for (when, says) in [
        ("'yes'", "when is a string, not true or false"),
        ("args.x + 1", "when is an int, not true or false"),
        ("1 + 1", "when is an int, not true or false"),
        ("[true]", "when is a list, not true or false"),
        ("args", "when is a map, not true or false"),
        ("tool", "when is a map, not true or false"),
        ("tool.path", "when is a string, not true or false"),
        ("size(args.x)", "when is an int, not true or false"),
        ("args.l.map(x, x > 1)", "when is a list, not true or false"),
        ("args.?x", "when is an optional value, not true or false"),
        ("null", "when is null, not true or false"),
        ("args.b ? 1 : 2", "when is an int, not true or false"),
        ("!tool.path", "! needs true or false, not a string"),
        ("tool.path && true", "&& needs true or false, not a string"),
        ("args.x || 'x'", "|| needs true or false, not a string"),
        ("1 ? true : false", "? : needs true or false, not an int"),
        ("args.l.all(x, 'x')", "&& needs true or false, not a string"),
        ("args.l.filter(x, 1) == []", "? : needs true or false, not an int"),
        ("tool.path > 3", "> does not go with a string and an int"),
        ("principal.roles < principal.roles", "< does not go with a list and a list"),
        ("'a' in tool.path", "in does not go with a string and a string"),
        ("principal.kind == 3", "a string and an int are never equal, so == always says the same"),
        ("tool.destructive != 'yes'", "a boolean and a string are never equal, so != always says the same"),
        (
            "1 + 1.5 > 2.0",
            "+ does not go with an int and a double; numbers must be of one kind to be computed with, as in double(args.amount) * 1.5",
        ),
        ("'a' - 'b' == ''", "- does not go with a string and a string"),
        ("2.5 % 2.0 == 0.5", "% does not go with a double and a double"),
        ("-tool.path == 'x'", "- does not go with a string"),
        ("tool.path.x == 1", "a string has no fields, so no `x`"),
        ("tool.path[0] == 'x'", "a string cannot be indexed"),
        ("principal.roles['x'] == 'y'", "a list is indexed by a number, not by a string"),
        ("tool.path.all(x, true)", "a string cannot be gone through"),
        ("tool.path.startsWith(1)", "`startsWith` takes a string, not an int"),
        ("principal.roles.contains('admin')", "`contains` takes a string, not a list"),
        ("startsWith(tool.path, 'x')", "`startsWith` is called as in args.text.startsWith(\"x\")"),
        ("tool.path.contains('a', 'b')", "`contains` is called as in args.text.contains(\"x\")"),
        ("args.x.matches('[a')", "\"[a\" is no regular expression: unclosed character class"),
        ("args.x.matches('(a{1000}){1000}')", "\"(a{1000}){1000}\" is no regular expression: "),
        (
            "args.x.matches(args.y)",
            "the regular expression of `matches` must be written out, as in args.text.matches(\"^x+$\")",
        ),
        (
            "matches(args.x, 'a' + 'b')",
            "the regular expression of `matches` must be written out, as in args.text.matches(\"^x+$\")",
        ),
    ] {
        let reasons = when_reasons(when);
        assert!(reasons.len() == 1 && reasons[0].starts_with(says), "{when}: {reasons:?}");
    }
}

#[test]
fn a_predicate_that_may_be_a_boolean_is_taken() {
    for when in [
        "true",
        "args.flag",
        "args['flag']",
        "args.l[0]",
        "args.x == null",
        "null != args.x",
        "principal.id != null",
        "tool.destructive",
        "args.a ? args.b : false",
        "args.?flag.orValue(false)",
        "type(args.x) == string",
        "1 < 2.5",
        "args == {}",
        "tool == args.tool",
        "dyn(1) == 'x'",
        "args.x in principal.roles",
        "'id' in session",
        "'a' + args.x == 'ab'",
        "b'a' == bytes(args.x)",
        ".args.x == 1",
        "args.l.map(x, x + 1) + [1] == [2, 1]",
        "principal.roles.exists(r, r == 'admin')",
        "optional.none().or(args.?x).hasValue()",
    ] {
        assert_eq!(when_reasons(when), [""; 0], "{when}");
    }
}

#[test]
fn a_predicate_is_bounded_in_length_depth_and_loops() {
    let longest = format!("'{}' != tool.path", "x".repeat(MAX_WHEN_BYTES - 15));
    assert_eq!(longest.len(), MAX_WHEN_BYTES);
    assert_eq!(when_reasons(&longest), [""; 0]);
    assert_eq!(when_reasons(&format!("{longest} ")), ["when has 4097 bytes; the limit is 4096"]);

    let too_deep = "when is nested deeper than 64 levels; split it over several rules";
    assert_eq!(when_reasons(&format!("args.x == 1{}", " + 1".repeat(50))), [""; 0]);
    // Chains, which the parser takes at any length and the interpreter's stack does not.
    for chain in ["+1", ".a", "[0]", "<1", "*1", ".size()"] {
        let when = format!("args.x{}", chain.repeat(4000 / chain.len()));
        assert_eq!(when_reasons(&when), [too_deep], "{chain}");
    }
    for (open, close) in
        [("(", ")"), ("[", "]"), ("!(", ")"), ("size(", ")"), ("{1:", "}"), ("true ? true : (", ")")]
    {
        let count = 4000 / (open.len() + close.len());
        let when = format!("{}args.x{}", open.repeat(count), close.repeat(count));
        assert_eq!(when_reasons(&when), ["when is nested too deeply; split it over several rules"], "{open}");
    }
    assert_eq!(when_reasons(&format!("true{}", " && true".repeat(500))), [""; 0]);

    assert_eq!(when_reasons("args.a.all(a, a.b.all(b, b.c.all(c, c.d)))"), [""; 0]);
    assert_eq!(
        when_reasons("args.a.all(a, a.b.all(b, b.c.all(c, c.d.all(d, d))))"),
        ["when has 4 loops inside one another; at most 3"]
    );
}

#[test]
fn examples_are_tried_on_their_own_rule_alone() {
    let text = r#"
[[rule]]
match = "**"
effect = "deny"

[[rule]]
match = "a.*"
when = 'args.n > 1'
effect = "ask"
[rule.examples]
matches = ['a.b {"n": 2}', '  a.b   {"n":3}  ', 'a.c {"n": 1}', 'a.b']
misses = ['a.b {"n": 1}', 'b.c', 'a.b {"n": 4}', 'a.b {"n":"x"}']
"#;
    assert_eq!(
        errors(text),
        [
            "line 11, rule 2: example 'a.c {\"n\": 1}' should match, but its when is false",
            "line 11, rule 2: example 'a.b' fails: there is no \"n\"; where it may be missing, ask first, as in has(args.n) && …",
            "line 12, rule 2: example 'a.b {\"n\": 4}' should not match, but it does",
            "line 12, rule 2: example 'a.b {\"n\":\"x\"}' fails: > does not go with a string and an int",
        ]
    );
}

#[test]
fn malformed_examples_are_refused_even_where_there_is_nothing_to_try_them_on() {
    let text = "[[rule]]\nmatch = 'a'\neffect = 'ask'\nexamples = { matches = [\n'createIssue',\n'a.b {',\n'a.b [1]',\n'',\n3] }\n";
    let errors = errors(text);
    let starts = [
        "line 2, rule 1: \"a\" has one segment",
        "line 5, rule 1: example 'createIssue' has no path: Segment \"createIssue\" of tool path \"createIssue\" has uppercase letters",
        "line 6, rule 1: example 'a.b {' has no JSON object after its path: EOF",
        "line 7, rule 1: example 'a.b [1]' has no JSON object after its path: invalid type",
        "line 8, rule 1: example '' has no path: A tool path is empty",
        "line 9, rule 1: an example is a string, not an integer: 'PATH' or 'PATH {…}'",
    ];
    assert_eq!(errors.len(), starts.len(), "{errors:#?}");
    for (error, start) in errors.iter().zip(starts) {
        assert!(error.starts_with(start), "{error}");
    }
    assert_eq!(
        reasons("examples = ['a.b']"),
        ["examples is an array; write examples = { matches = ['…'], misses = ['…'] }"]
    );
    assert_eq!(reasons("examples.matches = 'a.b'"), ["examples.matches is a string; write matches = ['…']"]);
    let many = vec!["'a.b'"; 101].join(",");
    assert_eq!(
        reasons(&format!("examples.matches = [{many}]")),
        ["examples.matches has 101 examples; at most 100"]
    );
}

#[test]
fn examples_are_calls_by_an_agent_of_an_unknown_tool() {
    let when = r#"principal.kind == "agent" && principal.id == "example" && session.id == "example" && tool.destructive && !tool.idempotent && tool.openWorld && tool.source == "a""#;
    assert_eq!(reasons(&format!("when = '{when}'\nexamples.matches = ['a.b']")), [""; 0]);
}
