//! Questions and decisions as values: what repeats, what authorises, what may be remembered, what the caller is told.

use countersign_core::canonical::Canonical;
use countersign_core::elicitation::{Decider, Decision, Elicitation, Origin, may_remember};
use countersign_core::execution::refused;
use countersign_sdk::{AskKind, FormSchema, Outcome, Remember};
use serde_json::json;

use crate::sample::{ann, decision, eli, form, gra, ms, principal, question, tok, withdrawal};

fn yes() -> Decision {
    decision(Outcome::Approved, ms(5))
}

#[test]
fn a_decider_who_says_the_same_again_repeats_and_whoever_says_otherwise_does_not() {
    let words = Decision { comment: Some("as I said".into()), channel: "cli".into(), at: ms(9), ..yes() };
    assert!(yes().repeats(&words), "other words for the same decision");
    for token in [None, Some(tok(2))] {
        let by = Decider::Person { principal: principal("ann"), token };
        let elsewhere = Decision { by, ..yes() };
        assert!(
            yes().repeats(&elsewhere) && elsewhere.repeats(&yes()),
            "a person is the same with any token"
        );
    }
    let bob = Decider::Person { principal: principal("bob"), token: None };
    let data = Some(Canonical::of(&json!({ "branch": "main" })).unwrap());
    let others = [
        decision(Outcome::Denied, ms(5)),
        Decision { by: bob, ..yes() },
        Decision { by: Decider::Grant { id: gra(1) }, ..yes() },
        Decision { data, ..yes() },
    ];
    for other in others {
        assert!(!yes().repeats(&other) && !other.repeats(&yes()), "{other:?}");
    }
}

#[test]
fn only_a_person_decides_with_a_token() {
    let by = |by| Decision { by, ..yes() }.token();
    assert_eq!(by(ann()), Some(tok(1)));
    assert_eq!(by(Decider::Person { principal: principal("bob"), token: None }), None);
    assert_eq!(by(Decider::Grant { id: gra(1) }), None);
    assert_eq!(by(Decider::Clock), None);
    assert_eq!(by(Decider::Gateway { reason: "x".into() }), None);
}

#[test]
fn a_yes_to_an_approval_or_to_a_form_without_fields_lets_something_happen() {
    let of = |kind| Elicitation { kind, ..question(eli(1), Origin::Gate, ms(0)) }.authorises();
    assert!(of(AskKind::Approval));
    assert!(of(AskKind::Form { schema: FormSchema::confirm() }));
    assert!(!of(form()));
}

#[test]
fn call_is_the_most_that_may_be_remembered_where_call_was_asked() {
    assert!(may_remember(Remember::Session, Remember::Session));
    assert!(may_remember(Remember::Session, Remember::Call));
    assert!(may_remember(Remember::Call, Remember::Call));
    assert!(!may_remember(Remember::Call, Remember::Session));
}

#[test]
fn the_caller_is_told_how_the_question_ended_and_what_the_person_wrote() {
    let said = |outcome, comment: Option<&str>| {
        let comment = comment.map(str::to_owned);
        refused(&Decision { comment, ..decision(outcome, ms(5)) }).to_string()
    };
    let told = [
        said(Outcome::Denied, None),
        said(Outcome::Denied, Some("wrong note")),
        said(Outcome::Cancelled, None),
        said(Outcome::Cancelled, Some("later")),
        said(Outcome::Expired, None),
        refused(&withdrawal(ms(5))).to_string(),
    ];
    insta::assert_snapshot!("what_the_caller_is_told", told.join("\n"));
}
