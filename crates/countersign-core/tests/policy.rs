//! What policy promises, from outside: which rule decides, what predicates can see, what happens when they cannot say,
//! and that no arguments can keep one busy.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected stops there")]

use std::time::Duration;

use countersign_core::policy::{Effect, Policy, RuleOutcome, Subject, Verdict, VerdictSource, Writes};
use countersign_sdk::{Effects, Principal, Remember, Role, SessionId, ToolPath};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The configuration in CONTRACT.md, verbatim.
const CONTRACT: &str = r#"
listen = "127.0.0.1:7420"
data_dir = "…"                     # SQLite, tokens, keys; default: the platform's data folder
# database_url = "postgres://…"    # several nodes share this

[approvals]
expires = "24h"                    # then the outcome is `expired`
remember = "session"               # default for tools that say nothing: ask once per session and tool; or "call"
agent_may_decide = false
client_elicitation = true          # an accept in the agent's own client counts as the user's decision
park_after = "30s"

[[rule]]                           # first match wins
match = "github.issues.*"          # `*` one segment, `**` any depth
when = 'args.repo != "sandbox"'    # CEL over args, tool, principal, session; optional
effect = "ask"                     # allow | ask | deny
expires = "1h"
remember = "call"
reason = "Shown to the person."
examples = { matches = ['github.issues.create {"repo":"web"}'], misses = ['github.issues.create {"repo":"sandbox"}'] }
"#;

/// A call by an agent; a read-only tool unless said otherwise.
struct Call {
    path: ToolPath,
    effects: Effects,
    args: Value,
    principal: Principal,
    session: SessionId,
}

impl Call {
    fn of(path: &str, args: Value) -> Self {
        Self {
            path: ToolPath::parse(path).unwrap(),
            effects: Effects::default(),
            args,
            principal: Principal::agent("agent-1").unwrap(),
            session: SessionId::parse("ses_1").unwrap(),
        }
    }

    fn read_only(mut self) -> Self {
        self.effects.read_only = true;
        self
    }

    fn destructive(mut self) -> Self {
        self.effects.destructive = true;
        self
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.path,
            effects: self.effects,
            source: "github",
            args: &self.args,
            principal: &self.principal,
            session: &self.session,
        }
    }
}

fn policy(text: &str) -> Policy {
    Policy::from_toml(text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A policy whose only rule denies where the predicate is true.
fn deny_when(when: &str) -> Policy {
    policy(&format!("[[rule]]\nmatch = \"**\"\neffect = \"deny\"\nwhen = '''{when}'''\n"))
}

fn holds(when: &str, args: Value) -> bool {
    match deny_when(when).decide(&Call::of("a.b", args).subject()).source {
        VerdictSource::Rule { .. } => true,
        VerdictSource::DefaultWrites { .. } => false,
        other => panic!("{when}: {other}"),
    }
}

fn problem(when: &str, args: Value) -> String {
    let verdict = deny_when(when).decide(&Call::of("a.b", args).subject());
    assert_eq!(verdict.effect, Effect::Deny, "{when}");
    match verdict.source {
        VerdictSource::EvaluatorFailed { number: 1, problem } => problem,
        other => panic!("{when}: {other}"),
    }
}

#[test]
fn the_example_in_the_contract_does_what_it_says() {
    let policy = policy(CONTRACT);
    let verdict = policy.decide(&Call::of("github.issues.create", json!({ "repo": "web" })).subject());
    let expected = Verdict {
        effect: Effect::Ask,
        source: VerdictSource::Rule { number: 1, match_: "github.issues.*".into() },
        reason: Some("Shown to the person.".to_owned()),
        expires: Some(Duration::from_secs(3600)),
        remember: Some(Remember::Call),
    };
    assert_eq!(verdict, expected);
    assert_eq!(verdict.source.to_string(), "rule 1 (github.issues.*)");
    let sandbox = policy.decide(&Call::of("github.issues.create", json!({ "repo": "sandbox" })).subject());
    assert_eq!(sandbox.source, VerdictSource::DefaultWrites { writes: Writes::Allow });

    let rule = &policy.rules()[0];
    assert_eq!((rule.number(), rule.line(), rule.effect()), (1, 13, Effect::Ask));
    assert_eq!(rule.pattern().as_str(), "github.issues.*");
    assert_eq!(rule.when().map(|when| when.source()), Some("args.repo != \"sandbox\""));
    assert_eq!((rule.expires(), rule.remember()), (expected.expires, expected.remember));
    assert_eq!(rule.reason(), Some("Shown to the person."));
}

#[test]
fn where_no_rule_matches_reading_and_writing_are_allowed_and_destroying_asks() {
    for policy in [Policy::default(), policy(""), policy("[[rule]]\nmatch='x.y'\neffect='deny'\n")] {
        let writes = policy.decide(&Call::of("a.b", json!({})).subject());
        assert_eq!((writes.effect, writes.reason), (Effect::Allow, None));
        assert_eq!(writes.source.to_string(), "no rule matches: tools that write are allowed");
        let reads = policy.decide(&Call::of("a.b", json!({})).read_only().subject());
        assert_eq!(reads.effect, Effect::Allow);
        assert_eq!(reads.source.to_string(), "no rule matches: tools that only read are allowed");
        let destructive = policy.decide(&Call::of("a.b", json!({})).destructive().subject());
        assert_eq!(destructive.effect, Effect::Ask);
        assert_eq!(destructive.source.to_string(), "no rule matches: destructive tools ask");
    }
}

#[test]
fn where_writes_ask_only_reading_is_allowed_and_a_rule_still_comes_first() {
    let rules = policy("[[rule]]\nmatch='x.y'\neffect='allow'\n");
    let asking = rules.with_writes(Writes::Ask);
    for (call, effect) in [
        (Call::of("a.b", json!({})), Effect::Ask),
        (Call::of("a.b", json!({})).read_only(), Effect::Allow),
        (Call::of("a.b", json!({})).destructive(), Effect::Ask),
        (Call::of("x.y", json!({})), Effect::Allow),
    ] {
        assert_eq!(asking.decide(&call.subject()).effect, effect);
    }
    let verdict = asking.decide(&Call::of("a.b", json!({})).subject());
    assert_eq!(verdict.source.to_string(), "no rule matches: tools that write ask (approvals.writes)");
}

#[test]
fn whether_writes_ask_is_part_of_the_version_and_the_default_leaves_it_as_it_was() {
    let rules = policy("[[rule]]\nmatch='x.y'\neffect='allow'\n");
    assert_ne!(rules.version(), rules.with_writes(Writes::Ask).version());
    assert_eq!(rules.version(), rules.with_writes(Writes::Ask).with_writes(Writes::Allow).version());
}

#[test]
fn a_rule_can_ask_for_the_class_of_a_tool() {
    for (when, [reads, writes, destroys]) in [
        ("tool.readOnly", [true, false, false]),
        ("tool.effect == 'writes'", [false, true, false]),
        ("tool.effect == 'destroys'", [false, false, true]),
    ] {
        let denies = |call: Call| deny_when(when).decide(&call.subject()).effect == Effect::Deny;
        let call = || Call::of("a.b", json!({}));
        assert_eq!(denies(call().read_only()), reads, "{when}");
        assert_eq!(denies(call()), writes, "{when}");
        assert_eq!(denies(call().destructive()), destroys, "{when}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_however_strict_the_later_ones_are() {
    let policy = policy(
        "[[rule]]\nmatch='a.x'\neffect='allow'\n[[rule]]\nmatch='a.*'\neffect='deny'\n[[rule]]\nmatch='**'\neffect='ask'\n",
    );
    for (path, effect, number) in
        [("a.x", Effect::Allow, 1), ("a.y", Effect::Deny, 2), ("b.y", Effect::Ask, 3)]
    {
        let verdict = policy.decide(&Call::of(path, json!({})).destructive().subject());
        assert_eq!((verdict.effect, verdict.source.rule_number()), (effect, Some(number)), "{path}");
    }
}

#[test]
fn effects_are_ordered_by_strictness() {
    assert!(Effect::Allow < Effect::Ask && Effect::Ask < Effect::Deny);
    assert_eq!(
        serde_json::to_value([Effect::Allow, Effect::Ask, Effect::Deny]).unwrap(),
        json!(["allow", "ask", "deny"])
    );
    assert_eq!(serde_json::from_value::<Effect>(json!("ask")).unwrap(), Effect::Ask);
}

#[test]
fn a_predicate_sees_the_arguments_the_tool_the_principal_and_the_session() {
    let when = r#"args.deep.list[1].name == "x" && tool.path == "a.b" && tool.source == "github"
        && tool.destructive && !tool.idempotent && !tool.openWorld
        && principal.id == "agent-1" && principal.kind == "agent" && principal.roles == ["agent", "approver"]
        && "approver" in principal.roles && session.id == "ses_1" && has(args.deep) && !has(args.shallow)"#;
    let mut call = Call::of("a.b", json!({ "deep": { "list": [1, { "name": "x" }] } })).destructive();
    call.principal.roles = vec![Role::Agent, Role::Approver];
    let verdict = deny_when(when).decide(&call.subject());
    assert_eq!(verdict.source.to_string(), "rule 1 (**)");
}

#[test]
fn numbers_compare_by_value_whatever_json_made_of_them() {
    for (amount, more) in [
        (json!(10_001), true),
        (json!(10_001.5), true),
        (json!(10_001.0), true),
        (json!(10_000), false),
        (json!(10_000.0), false),
        (json!(9_999.99), false),
        (json!(-20_000), false),
        (json!(-20_000.5), false),
        (json!(9_007_199_254_740_991_i64), true),
        (json!(i64::MIN), false),
        (json!(u64::MAX), true),
        (json!(1e300), true),
        (json!(-1e300), false),
    ] {
        for when in
            ["args.amount > 10000", "args.amount > 10000u", "args.amount > 10000.0", "10000 < args.amount"]
        {
            assert_eq!(holds(when, json!({ "amount": amount })), more, "{when} of {amount}");
        }
    }
}

#[test]
fn a_number_is_the_same_however_it_is_spelt() {
    for spelling in ["2", "2.0", "2e0", "20e-1"] {
        let args: Value = serde_json::from_str(&format!("{{\"n\":{spelling}}}")).unwrap();
        for when in [
            "args.n == 2",
            "args.n == 2.0",
            "args.n + 1 == 3",
            "args.n in [2]",
            "type(args.n) == int",
            "[1, 2, 3][args.n] == 3",
        ] {
            assert!(holds(when, args.clone()), "{when} of {spelling}");
        }
    }
    assert!(holds("type(args.n) == double && args.n * 2.0 == 5.0", json!({ "n": 2.5 })));
    // Equal as doubles; a rule about the one must not speak of the other.
    assert!(!holds("args.n == 9007199254740993", json!({ "n": 9_007_199_254_740_992.0 })));
}

#[test]
fn lists_maps_and_null_compare_from_both_sides() {
    let args = json!({ "l": [1, "a", null], "m": { "k": [true] }, "n": null });
    for when in [
        "args.l == [1, 'a', null]",
        "[1, 'a', null] == args.l",
        "args.m == {'k': [true]}",
        "{'k': [true]} == args.m",
        "args.n == null",
        "'k' in args.m",
        "null in args.l",
        "size(args.l) == 3 && args.l.size() == 3",
        "args.?gone.orValue('none') == 'none'",
        "args.?l.optMap(l, l[0]).orValue(0) == 1",
        "optional.of(args.l).hasValue()",
    ] {
        assert!(holds(when, args.clone()), "{when}");
    }
}

#[test]
fn a_predicate_that_cannot_say_denies_and_says_why_without_any_value() {
    let args = json!({ "s": "hunter2", "n": null, "i": 77_777, "l": ["hunter2"], "f": 0.5 });
    for (when, says) in [
        (
            "args.repo == 'x'",
            "there is no \"repo\"; where it may be missing, ask first, as in has(args.repo) && …",
        ),
        (
            "args.l[args.i] == 1",
            "a list is shorter than that; where it may be, ask first, as in size(args.list) > 0",
        ),
        (
            "{'a': 1}[args.s] == 1",
            "there is no such key; where it may be missing, ask first, as in \"name\" in args && …",
        ),
        (
            "args['my-key'] == 1",
            "there is no \"my-key\"; where it may be missing, ask first, as in \"my-key\" in args && …",
        ),
        ("args.s > 3", "> does not go with a string and an int"),
        (
            "args.n > 3",
            "> does not go with null and an int; where a value may be null, ask first, as in args.name != null && …",
        ),
        ("args.s.repo == 'x'", "a string has no fields"),
        ("has(args.s.repo)", "a string has no fields"),
        ("args.s + 1 == 2", "+ does not go with a string and an int"),
        (
            "args.f * args.i > 1.0",
            "* does not go with a double and an int; numbers must be of one kind to be computed with, as in double(args.amount) * 1.5",
        ),
        ("!args.s", "! does not go with a string"),
        ("args.s && true", "&& does not go with a string and a boolean"),
        ("args.s ? true : false", "a string stands where a boolean is needed"),
        ("-args.s == 1", "- does not go with a string"),
        ("'a' in args.s", "in does not go with a string and a string"),
        ("args.l['a'] == 1", "[] does not go with a list and a string"),
        ("args.s.all(x, x > 0)", "a string cannot be gone through"),
        ("args.l.all(x, x > 0)", "> does not go with a string and an int"),
        ("args.i.startsWith('7')", "startsWith() does not go with an int and a string"),
        ("int(args.s) == 1", "int() cannot take the value it was given"),
        ("1 / (args.i - 77777) == 1", "a division by zero"),
        ("1 % (args.i - 77777) == 1", "a division by zero"),
        ("args.i + 9223372036854775807 > 0", "a number too large to compute with"),
        ("args.i", "when is an int, not true or false"),
        ("args.s", "when is a string, not true or false"),
        ("args.l", "when is a list, not true or false"),
        ("args.n", "when is null, not true or false"),
        ("args.?s.value()", "when is a string, not true or false"),
        ("{args.s: 1, 'hunter2': 2} == {}", "the expression does not fit these arguments"),
    ] {
        let problem = problem(when, args.clone());
        assert_eq!(problem, says, "{when}");
        assert!(!problem.contains("hunter2") && !problem.contains("77777"), "{problem}");
    }
}

#[test]
fn a_failed_predicate_denies_at_once_and_later_rules_are_not_asked() {
    let policy = policy(
        "[[rule]]\nmatch='a.*'\nwhen='args.repo == \"x\"'\neffect='allow'\nreason='Never shown.'\n[[rule]]\nmatch='**'\neffect='allow'\n",
    );
    let verdict = policy.decide(&Call::of("a.b", json!({})).subject());
    assert_eq!((verdict.effect, verdict.reason.as_deref()), (Effect::Deny, None));
    assert_eq!(
        verdict.source.to_string(),
        "rule 1 cannot be evaluated, so the call is denied: there is no \"repo\"; where it may be missing, ask first, as in has(args.repo) && …"
    );
    // A pattern that does not match is never evaluated.
    assert_eq!(policy.decide(&Call::of("b.b", json!({})).subject()).effect, Effect::Allow);
}

#[test]
fn an_error_on_one_side_does_not_count_where_the_other_side_decides_alone() {
    assert!(!holds("args.repo == 'x' && false", json!({})));
    assert!(holds("args.repo == 'x' || true", json!({})));
    assert!(!holds("has(args.repo) && args.repo == 'x'", json!({})));
    problem("args.repo == 'x' && true", json!({}));
    problem("args.repo == 'x' || false", json!({}));
}

#[test]
fn arguments_too_deep_for_a_predicate_deny() {
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let says = problem("args.a == 1", json!({ "a": deep }));
    assert_eq!(says, "the arguments are nested deeper than 64 levels");
    // Also where the predicate would come out the same without them.
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(problem("args.a == 1 || true", json!({ "a": deep })), says);
    // Where no predicate looks, nobody minds.
    let policy = policy("[[rule]]\nmatch='**'\neffect='allow'\n");
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(policy.decide(&Call::of("a.b", json!({ "a": deep })).subject()).effect, Effect::Allow);
}

#[test]
fn no_arguments_can_keep_a_predicate_busy() {
    let many: Vec<u32> = (0..30_000).collect();
    let texts: Vec<String> = many.iter().map(u32::to_string).collect();
    let args = json!({ "a": many, "b": many, "t": texts });
    for when in [
        "args.a.all(x, x in args.b)",
        "args.a.all(x, args.b.exists(y, y == x))",
        "args.a.exists(x, x > 30000 && x in args.b || args.b.all(y, y != x))",
        "args.a.all(x, args.a == args.b)",
        "!args.a.exists(x, args.b.exists(y, y + x == -1))",
        "args.a.map(x, args.b.filter(y, y == x)).size() == 1",
        "args.a.map(x, args.b).size() == 1",
        "args.a.filter(x, x in args.b).size() == 1",
        "args.a.exists_one(x, x in args.b)",
        "args.all(k, args[k].all(x, args.a.all(y, true)))",
        "[args.a.map(x, x)].all(l, l.all(x, l.all(y, true)))",
        "args.?a.optMap(l, l.all(x, l.all(y, true))).orValue(true)",
        "args.t.all(x, x.matches('^[0-9]+$'))",
    ] {
        let says = problem(when, args.clone());
        assert!(says.starts_with("the arguments are too large for this predicate"), "{when}: {says}");
    }
    // One way through is no work.
    for when in [
        "args.a.all(x, x >= 0)",
        "size(args.a.filter(x, x > 10)) > 10",
        "args.a == args.b",
        "29999 in args.a",
    ] {
        assert!(holds(when, args.clone()), "{when}");
    }
    // Nor is a join over some hundreds, or comparing each of thousands with one thing.
    let some: Vec<u32> = (0..500).collect();
    assert!(holds("args.a.all(x, args.b.exists(y, y == x))", json!({ "a": some, "b": some })));
    let items: Vec<Value> = (0..20_000).map(|n| json!({ "owner": "o", "n": n })).collect();
    assert!(holds("args.items.all(x, x.owner == args.owner)", json!({ "items": items, "owner": "o" })));
}

#[test]
fn the_deepest_predicate_that_loads_can_be_evaluated() {
    // On the stack of a test, which is that of a worker: two mebibytes.
    assert!(holds(&format!("args.x == 1{}", " + 1".repeat(61)), json!({ "x": 62 })));
    assert!(holds(
        &format!("args.x{} == 1", "[0]".repeat(60)),
        json!({ "x": (0..60).fold(json!(1), |x, _| json!([x])) })
    ));
}

#[test]
fn the_meter_changes_no_answer() {
    let args =
        json!({ "l": [3, 1, 2], "e": [], "m": { "a": 1, "b": 2 }, "t": ["ab", "cd"], "bad": [1, "x"] });
    for (when, answer) in [
        ("args.l.all(x, x > 0)", true),
        ("args.l.all(x, x > 1)", false),
        ("args.e.all(x, x > 1)", true),
        ("args.l.exists(x, x == 2)", true),
        ("args.l.exists(x, x == 9)", false),
        ("args.e.exists(x, true)", false),
        ("args.l.exists_one(x, x == 2)", true),
        ("args.l.existsOne(x, x > 1)", false),
        ("args.l.map(x, x * 2) == [6, 2, 4]", true),
        ("args.l.map(x, x > 1, x * 2) == [6, 4]", true),
        ("args.l.map(x, [x]) == [[3], [1], [2]]", true),
        ("args.l.filter(x, x != 1) == [3, 2]", true),
        ("args.m.all(k, args.m[k] > 0)", true),
        ("args.l.map(x, args.l.filter(y, y < x).size()) == [2, 0, 1]", true),
        ("args.t.exists(x, x.matches('^c'))", true),
        ("args.t.all(x, matches(x, '^c'))", false),
        ("!args.t.all(x, x.matches('^c'))", true),
        // CEL lets a later element decide over the error of an earlier one.
        ("args.bad.exists(x, x < 2)", true),
        ("args.bad.all(x, x > 1)", false),
    ] {
        assert_eq!(holds(when, args.clone()), answer, "{when}");
    }
    problem("args.bad.all(x, x > 0)", args);
}

#[test]
fn the_version_is_of_what_the_rules_say_and_of_their_order() {
    let base = "[[rule]]\nmatch='a.*'\nwhen='args.x == 1'\neffect='ask'\nexpires='1h'\n[[rule]]\nmatch='**'\neffect='deny'\n";
    let version = policy(base).version().to_string();
    assert_eq!(version.len(), 64);
    let same = r#"# A comment.
        listen = "127.0.0.1:1"

        [[rule]]
        effect = "ask"
        expires = "60m"          # the same time
        when = """
        args.x == 1
        """
        match = "a.*"
        examples = { matches = ['a.b {"x":1}'] }

        [[rule]]
        match = "**"
        effect = "deny""#;
    assert_eq!(policy(same).version().to_string(), version);
    assert_ne!(policy(same).rules()[0].line(), policy(base).rules()[0].line());

    let swapped = "[[rule]]\nmatch='**'\neffect='deny'\n[[rule]]\nmatch='a.*'\nwhen='args.x == 1'\neffect='ask'\nexpires='1h'\n";
    let mut versions = vec![version, policy(swapped).version().to_string()];
    for (from, to) in [
        ("match='a.*'", "match='a.b'"),
        ("when='args.x == 1'\n", ""),
        ("args.x == 1", "args.x == 2"),
        ("'deny'", "'allow'"),
        ("'1h'", "'2h'"),
        ("expires='1h'\n", ""),
        ("expires='1h'", "remember='call'"),
        ("expires='1h'", "expires='1h'\nreason='Because.'"),
    ] {
        versions.push(policy(&base.replacen(from, to, 1)).version().to_string());
    }
    let count = versions.len();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), count, "every change is another version");
    assert_eq!(policy("").version(), Policy::default().version());
    // Golden: what is stored beside approvals must not change between releases.
    assert_eq!(
        policy(base).version().to_string(),
        "bbda4334db0f28dc2c168b67869f579aaba49c403d107abab9b7e17b1c511187"
    );
}

#[test]
fn an_explanation_shows_every_rule_and_which_decided() {
    let policy = policy(
        r#"[[rule]]
match = "github.repos.*"
effect = "deny"
[[rule]]
match = "github.**"
when = '''
args.repo
  == "sandbox"'''
effect = "allow"
[[rule]]
match = "github.issues.*"
effect = "ask"
reason = "Issues are public."
[[rule]]
match = "**"
effect = "deny"
"#,
    );
    let call = Call::of("github.issues.create", json!({ "repo": "web" }));
    let explanation = policy.explain(&call.subject());
    let outcomes: Vec<_> = explanation.rules.iter().map(|rule| rule.outcome.clone()).collect();
    let expected =
        [RuleOutcome::PatternMisses, RuleOutcome::WhenIsFalse, RuleOutcome::Matches, RuleOutcome::NotReached];
    assert_eq!(outcomes, expected);
    assert_eq!(
        explanation.to_string(),
        r#"github.issues.create
  rule 1 (line 1)      deny  github.repos.*   the pattern does not match
  rule 2 (line 4)      allow github.**        the predicate is false   when args.repo == "sandbox"
> rule 3 (line 10)     ask   github.issues.*  matches
  rule 4 (line 14)     deny  **               not reached
ask: rule 3 (github.issues.*)
reason: Issues are public."#
    );

    let failed = policy.explain(&Call::of("github.issues.create", json!({})).subject()).to_string();
    assert!(
        failed.contains(
            "> rule 2 (line 4)      allow github.**        the predicate failed: there is no \"repo\""
        ),
        "{failed}"
    );
    assert!(failed.contains("  rule 3 (line 10)     ask   github.issues.*  not reached\n"), "{failed}");
    assert!(
        failed.contains("\ndeny: rule 2 cannot be evaluated, so the call is denied: there is no \"repo\""),
        "{failed}"
    );

    let unruled = Policy::default().explain(&call.subject());
    assert_eq!(
        unruled.to_string(),
        "github.issues.create\nallow: no rule matches: tools that write are allowed"
    );
}

#[test]
fn a_policy_is_shared_between_threads() {
    fn is_shareable<T: Send + Sync + Clone + 'static>(_: &T) {}
    let policy = deny_when("args.x == 1");
    is_shareable(&policy);
    let copy = policy.clone();
    let effect =
        std::thread::spawn(move || copy.decide(&Call::of("a.b", json!({ "x": 1 })).subject()).effect);
    assert_eq!(effect.join().unwrap(), Effect::Deny);
}

proptest! {
    #[test]
    fn deciding_and_explaining_say_the_same(
        effects in prop::collection::vec(prop_oneof![Just("allow"), Just("ask"), Just("deny")], 0..6),
        patterns in prop::collection::vec(prop_oneof![Just("a.*"), Just("a.b"), Just("**.c"), Just("**")], 6),
        predicates in prop::collection::vec(prop_oneof![Just("true"), Just("args.x > 1"), Just("tool.destructive")], 6),
        path in prop_oneof![Just("a.b"), Just("a.c"), Just("b.d")],
        args in prop_oneof![Just(json!({})), Just(json!({ "x": 1 })), Just(json!({ "x": 2 })), Just(json!({ "x": "y" }))],
        destructive in any::<bool>(),
    ) {
        let rule = |((effect, pattern), when): ((&&str, &&str), &&str)| {
            format!("[[rule]]\nmatch='{pattern}'\nwhen='{when}'\neffect='{effect}'\n")
        };
        let text: String = effects.iter().zip(&patterns).zip(&predicates).map(rule).collect();
        let policy = policy(&text);
        let mut call = Call::of(path, args);
        call.effects.destructive = destructive;
        let (verdict, explanation) = (policy.decide(&call.subject()), policy.explain(&call.subject()));
        prop_assert_eq!(&verdict, &explanation.verdict);
        prop_assert_eq!(explanation.rules.len(), policy.rules().len());
        let decided = explanation.rules.iter().position(|rule| {
            matches!(rule.outcome, RuleOutcome::Matches | RuleOutcome::WhenFailed(_))
        });
        prop_assert_eq!(decided.map(|index| index + 1), verdict.source.rule_number());
    }
}
