//! The stored form of every event, held to a committed file: what was written once is read for ever.
//!
//! A line of `golden/events_v1.jsonl` never changes and is never removed. A new variant adds a line.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin};
use countersign_core::event::{
    CallIssued, CallOutcome, Event, EventBody, Failure, Kind, LogLine, Settlement, Started, StartedBy,
};
use countersign_core::execution::sleep_digest;
use countersign_core::ids::{CallNo, RequestNo};
use countersign_sdk::{
    AskKind, Effects, LogLevel, Outcome, Principal, PrincipalKind, Remember, Resumable, Role,
};
use serde_json::{Value, json};

use crate::sample::{
    CALL, READS, by_answer, by_grant, by_rule, decided, decision, eli, failed, form, gra, issued, ms,
    policy_version, principal, question, requested, settled, start, started, succeeded, tok, verbatim,
    withdrawal,
};

const GOLDEN: &str = include_str!("golden/events_v1.jsonl");

/// One of every variant, with its optional fields given and left out.
fn samples() -> Vec<Event> {
    let mut bodies = beginnings();
    bodies.extend(questions());
    bodies.extend(answers());
    bodies.extend([by_rule(), by_grant(), by_answer(1), StartedBy::Retry].map(start));
    bodies.extend(ends());
    bodies.extend(scripts());
    bodies.push(EventBody::Rejudged { call: CALL, policy_version: policy_version() });
    bodies.extend(sources());
    bodies.push(EventBody::CallReentered { call: CALL });
    bodies.push(EventBody::CancelRequested { by: principal("ann"), reason: "no longer wanted".into() });
    let requested = Some(Digest::of(b"what was asked for"));
    bodies.push(EventBody::Started(Started { requested, ..started(Kind::Call) }));
    bodies.into_iter().zip(1_700_000_000_000..).map(|(body, at)| Event { at: ms(at), body }).collect()
}

fn beginnings() -> Vec<EventBody> {
    let roles = vec![Role::Agent, Role::Approver, Role::Admin, Role::Service];
    let full = Started {
        requester: Principal { id: principal("root"), kind: PrincipalKind::User, roles, owner: None },
        token: Some(tok(7)),
        idempotency_key: Some("order-1".into()),
        ..started(Kind::Gate)
    };
    let effects = Effects {
        destructive: true,
        idempotent: true,
        open_world: true,
        read_only: false,
        resumable: Resumable::Unsaid,
    };
    vec![
        EventBody::Started(started(Kind::Call)),
        EventBody::Started(full),
        EventBody::Started(Started { requester: Principal::service("cron").unwrap(), ..started(Kind::Call) }),
        EventBody::CallIssued(issued(CALL, READS)),
        EventBody::CallIssued(issued(CallNo(1), effects)),
    ]
}

fn questions() -> Vec<EventBody> {
    let gate = Elicitation { remember: Remember::Session, ..question(eli(1), Origin::Gate, ms(0)) };
    let form = Elicitation { kind: form(), ..question(eli(2), Origin::Handler { ordinal: 3 }, ms(0)) };
    [gate, form].map(|elicitation| EventBody::Asked(Arc::new(elicitation))).into()
}

fn answers() -> Vec<EventBody> {
    let data = Canonical::of(&json!({ "branch": "main" })).unwrap();
    let yes = decision(Outcome::Approved, ms(5));
    let full = Decision { comment: Some("fine by me".into()), data: Some(data), ..yes.clone() };
    let bare = Decider::Person { principal: principal("bob"), token: None };
    let decisions = [
        full,
        Decision { by: bare, channel: "cli".into(), ..decision(Outcome::Denied, ms(5)) },
        Decision { by: Decider::Grant { id: gra(1) }, channel: "grant".into(), ..yes },
        decision(Outcome::Cancelled, ms(5)),
        withdrawal(ms(5)),
        decision(Outcome::Expired, ms(5)),
    ];
    decisions.map(|decision| decided(eli(1), decision)).into()
}

fn ends() -> Vec<EventBody> {
    // A value beyond a double: results are kept as they came.
    let exact = verbatim(&json!({ "z": 9_007_199_254_740_993_u64, "a": [1.5, null, "\u{20ac}"] }));
    let settle = |settlement| EventBody::DoubtSettled { call: CALL, settlement, by: principal("ann") };
    vec![
        EventBody::StepRecorded { call: CALL, name: "charge".into(), value: exact.clone() },
        settled(succeeded()),
        settled(failed()),
        EventBody::finished(CallOutcome::Succeeded(exact.clone())),
        EventBody::finished(failed()),
        EventBody::Cancelled { by: None, reason: "shutdown".into() },
        EventBody::Cancelled { by: Some(principal("ann")), reason: "no longer wanted".into() },
        EventBody::FoundInDoubt { call: CALL, reason: None },
        settle(Settlement::Done { value: exact }),
        settle(Settlement::Failed { message: "it never arrived".into() }),
        settle(Settlement::Retry),
    ]
}

fn scripts() -> Vec<EventBody> {
    let refused = Failure::new("tool_not_found", "There is no tool \"notes.drop\".");
    let at_line_3 = CallIssued { line: Some(3), ..requested(CALL, READS) };
    let asked_at_line_3 = Elicitation { line: Some(3), ..question(eli(3), Origin::Gate, ms(0)) };
    let logs = vec![LogLine { level: LogLevel::Warn, message: "two left".into() }];
    vec![
        EventBody::Started(started(Kind::Script)),
        EventBody::CallIssued(requested(CALL, READS)),
        EventBody::CallRefused { path: "notes.drop".into(), requested: sleep_digest(1), failure: refused },
        EventBody::SleepStarted { ms: 1_500 },
        EventBody::SleepEnded { request: RequestNo(2) },
        EventBody::ScriptWaits { seen: 2 },
        EventBody::Finished { outcome: succeeded(), logs },
        EventBody::CallIssued(at_line_3),
        EventBody::Asked(Arc::new(asked_at_line_3)),
    ]
}

fn sources() -> Vec<EventBody> {
    let reason = Some("The request was sent, and no answer came.".into());
    vec![
        EventBody::CallIssued(CallIssued { source: Some("files".into()), ..issued(CALL, READS) }),
        EventBody::FoundInDoubt { call: CALL, reason },
    ]
}

/// The variants an event is made of. Exhaustive: a new variant does not compile until it has a name here.
fn variants(body: &EventBody) -> Vec<&'static str> {
    let parts = match body {
        EventBody::Started(started) => vec![match started.kind {
            Kind::Call => "Call",
            Kind::Gate => "Gate",
            Kind::Script => "Script",
        }],
        EventBody::Asked(asked) => variants_of_question(asked),
        EventBody::Decided { decision, .. } => variants_of_decision(decision),
        EventBody::CallStarted { by, .. } => vec![match by {
            StartedBy::Policy { .. } => "by policy",
            StartedBy::Grant { .. } => "by grant",
            StartedBy::Decision { .. } => "by decision",
            StartedBy::Retry => "by retry",
        }],
        EventBody::CallSettled { outcome, .. } => vec![match outcome {
            CallOutcome::Succeeded(_) => "call succeeded",
            CallOutcome::Failed(_) => "call failed",
        }],
        EventBody::Finished { outcome, .. } => vec![match outcome {
            CallOutcome::Succeeded(_) => "execution succeeded",
            CallOutcome::Failed(_) => "execution failed",
        }],
        EventBody::DoubtSettled { settlement, .. } => vec![match settlement {
            Settlement::Done { .. } => "done",
            Settlement::Failed { .. } => "failed",
            Settlement::Retry => "retry",
        }],
        EventBody::CallIssued(_)
        | EventBody::Rejudged { .. }
        | EventBody::CallReentered { .. }
        | EventBody::CancelRequested { .. }
        | EventBody::StepRecorded { .. }
        | EventBody::CallRefused { .. }
        | EventBody::SleepStarted { .. }
        | EventBody::SleepEnded { .. }
        | EventBody::ScriptWaits { .. }
        | EventBody::Cancelled { .. }
        | EventBody::FoundInDoubt { .. } => vec![],
    };
    parts.into_iter().chain([body.name()]).collect()
}

fn variants_of_question(asked: &Elicitation) -> Vec<&'static str> {
    let origin = match asked.origin {
        Origin::Gate => "asked by gate",
        Origin::Handler { .. } => "asked by handler",
    };
    let kind = match asked.kind {
        AskKind::Approval => "approval",
        AskKind::Form { .. } => "form",
    };
    let remember = match asked.remember {
        Remember::Call => "for the call",
        Remember::Session => "for the session",
    };
    vec![origin, kind, remember]
}

fn variants_of_decision(decision: &Decision) -> Vec<&'static str> {
    let by = match decision.by {
        Decider::Person { .. } => "person",
        Decider::Grant { .. } => "grant",
        Decider::Clock => "clock",
        Decider::Gateway { .. } => "gateway",
    };
    let outcome = match decision.outcome {
        Outcome::Approved => "approved",
        Outcome::Denied => "denied",
        Outcome::Cancelled => "cancelled",
        Outcome::Expired => "expired",
    };
    vec![by, outcome]
}

/// How many names [`variants`] can give.
const VARIANTS: usize = 18 + 3 + 2 + 2 + 2 + 4 + 4 + 4 + 2 + 2 + 3;

fn read(line: &str) -> Result<Event, serde_json::Error> {
    serde_json::from_str(line)
}

#[test]
fn every_variant_has_its_line_in_the_golden_file() {
    let covered: BTreeSet<_> = samples().iter().flat_map(|event| variants(&event.body)).collect();
    assert_eq!(covered.len(), VARIANTS, "{covered:#?}");
}

#[test]
fn the_stored_form_is_the_golden_one() {
    let samples = samples();
    let mut golden = GOLDEN.lines();
    for sample in &samples {
        let line = serde_json::to_string(sample).unwrap();
        assert_eq!(Some(line.as_str()), golden.next(), "the stored form of {} changed", sample.body.name());
    }
    assert_eq!(golden.next(), None, "a line of the golden file has no sample");
}

#[test]
fn what_was_stored_is_read_back_equal() {
    for (sample, line) in samples().iter().zip(GOLDEN.lines()) {
        assert_eq!(read(line).unwrap(), *sample, "{line}");
    }
}

#[test]
fn another_version_is_refused_and_says_what_to_do() {
    for line in GOLDEN.lines() {
        let newer = line.replacen("{\"v\":1,", "{\"v\":2,", 1);
        let error = read(&newer).unwrap_err().to_string();
        assert!(
            error.contains("the journal was written in version 2, this build reads version 1"),
            "{error}"
        );
        assert!(error.contains("run a newer countersign"), "{error}");
    }
    let unknown = r#"{"v":2,"at":1,"event":{"callForked":{"call":0}}}"#;
    assert!(
        read(unknown).unwrap_err().to_string().contains("run a newer countersign"),
        "also of unknown events"
    );
    let misspelt = unknown.replacen("\"v\":2", "\"v\":1", 1);
    assert!(read(&misspelt).unwrap_err().to_string().contains("unknown variant `callForked`"));
    let unversioned = GOLDEN.lines().next().unwrap().replacen("\"v\":1,", "", 1);
    assert!(read(&unversioned).unwrap_err().to_string().contains("missing field `v`"));
}

#[test]
fn fields_that_a_later_version_added_are_passed_over() {
    for (sample, line) in samples().iter().zip(GOLDEN.lines()) {
        let mut stored: Value = serde_json::from_str(line).unwrap();
        stored["later"] = json!({ "x": 1 });
        let event = stored["event"].as_object_mut().unwrap().values_mut().next().unwrap();
        event["later"] = json!([1]);
        for part in ["decision", "kind", "requester"] {
            if event.get(part).is_some_and(Value::is_object) {
                event[part]["later"] = json!("x");
            }
        }
        // Results are kept as they came, and going through `Value` sorts their keys: compare what they say.
        let read = read(&stored.to_string()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), serde_json::to_value(sample).unwrap(), "{line}");
    }
}

#[test]
fn optional_fields_may_be_missing_and_are_not_written_when_empty() {
    let lines = |key: &str| GOLDEN.lines().filter(|line| line.contains(&format!("\"{key}\":"))).count();
    for (key, written) in [
        ("idempotencyKey", 1),
        ("comment", 1),
        ("data", 1),
        ("token", 3),
        ("script", 1),
        ("logs", 1),
        ("line", 2),
        ("source", 2),
    ] {
        assert_eq!(lines(key), written, "{key} is written where it is given, and only there");
    }
    assert!(!GOLDEN.contains(":null"), "a field without a value is left out");
    let nulls = r#"{"v":1,"at":5,"event":{"cancelled":{"by":null,"reason":"x"}}}"#;
    let absent = r#"{"v":1,"at":5,"event":{"cancelled":{"reason":"x"}}}"#;
    assert_eq!(read(nulls).unwrap(), read(absent).unwrap());
}

#[test]
fn a_field_that_is_not_optional_must_be_there() {
    for line in GOLDEN.lines() {
        let whole: Value = serde_json::from_str(line).unwrap();
        let optional =
            ["token", "idempotencyKey", "comment", "data", "script", "requested", "line", "logs", "source"];
        let name = whole["event"].as_object().unwrap().keys().next().unwrap().clone();
        for field in whole["event"][&name].as_object().unwrap().keys() {
            let mut torn = whole.clone();
            torn["event"][&name].as_object_mut().unwrap().remove(field);
            let may_miss = (optional.contains(&field.as_str()) && name != "callRefused")
                || (name == "cancelled" && field == "by")
                || (name == "foundInDoubt" && field == "reason");
            assert_eq!(read(&torn.to_string()).is_ok(), may_miss, "{field} of {line}");
        }
    }
}
