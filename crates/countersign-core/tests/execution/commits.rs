//! The stored form of commits, held to a committed file, and read back whatever the commits are.
//!
//! A line of `golden/commits_v1.jsonl` never changes and is never removed.

use std::sync::Arc;

use countersign_core::commit::{Commit, CommitError, StoredCommit};
use countersign_core::event::{CallOutcome, Event, EventBody, Failure, LogLine, Settlement};
use countersign_core::execution::Execution;
use countersign_core::ids::CallNo;
use countersign_sdk::{LogLevel, Outcome};
use serde_json::json;

use crate::case::Case;
use crate::sample::{DELETES, READS, by_answer, by_rule, ms, succeeded, verbatim};

const GOLDEN: &str = include_str!("golden/commits_v1.jsonl");

/// The commits that a journal is stored in, cut before these events. Events of a commit come at the same moment.
fn stored(journal: &[Event], cuts: &[usize]) -> (Vec<Event>, Vec<String>) {
    let mut journal = journal.to_vec();
    let (mut texts, mut from) = (Vec::new(), 0);
    for to in cuts.iter().copied().chain([journal.len()]) {
        let mut at = journal[from].at;
        for event in &mut journal[from..to] {
            // A decision says itself when it was made.
            match &event.body {
                EventBody::Decided { .. } => at = event.at,
                _ => event.at = at,
            }
        }
        let execution = Execution::replay(&journal[..to]).unwrap();
        let commit = StoredCommit::of(&journal[from..to], Some(&execution)).unwrap();
        assert_eq!(commit.events(), (to - from) as u64);
        texts.push(commit.into_text());
        from = to;
    }
    (journal, texts)
}

fn read(texts: &[String]) -> Result<Vec<Event>, CommitError> {
    let mut journal = Vec::new();
    for text in texts {
        Commit::parse(text)?.append_to(&mut journal)?;
    }
    Ok(journal)
}

/// The hot cycle, a read, a question asked again, an end of its own, and a settled doubt.
fn samples() -> Vec<(Case, Vec<usize>)> {
    let gated = || Case::new().issue(DELETES).ask();
    let doubt = Case::approved(DELETES).doubt();
    let done = Settlement::Done { value: verbatim(&json!({ "deleted": 7 })) };
    vec![
        (gated().decide(Outcome::Approved).start(by_answer(1)).settle_ok().finish(), vec![3, 5]),
        (Case::new().issue(READS).start(by_rule()).settle_ok().finish(), vec![]),
        (Case::new().issue(DELETES).ask(), vec![2]),
        (gated().decide(Outcome::Denied).follow().finish(), vec![3, 4, 5]),
        (Case::approved(DELETES).settle_ok().finish(), vec![3, 5, 6]),
        (doubt.settle_doubt(done).finish(), vec![3, 5, 7]),
        (Case::script().read(0).end(succeeded()), vec![]),
        (Case::script().read(0).end(CallOutcome::Failed(Failure::new("script_error", "no"))), vec![]),
    ]
}

#[test]
fn the_stored_form_is_the_golden_one_and_is_read_back_equal() {
    let mut golden = GOLDEN.lines();
    for (case, cuts) in samples() {
        let (journal, texts) = stored(case.events(), &cuts);
        for text in &texts {
            assert_eq!(Some(text.as_str()), golden.next(), "the stored form changed");
        }
        assert_eq!(read(&texts).unwrap(), journal);
    }
    assert_eq!(golden.next(), None, "a line of the golden file has no sample");
}

#[test]
fn arguments_and_outcomes_are_stored_once_in_a_journal() {
    let cycle = &samples()[0];
    for cuts in [vec![3, 5], vec![1, 2, 3, 4, 5, 6], vec![]] {
        let (journal, texts) = stored(cycle.0.events(), &cuts);
        let all = texts.concat();
        assert_eq!(all.matches(r#""args":"#).count(), 1, "{all}");
        assert_eq!(all.matches(r#""succeeded":"#).count(), 1, "{all}");
        assert_eq!(read(&texts).unwrap(), journal);
    }
}

#[test]
fn a_question_about_something_else_than_its_call_is_stored_whole() {
    let mut question = Case::approved(DELETES).handlers_question();
    question.args = countersign_core::canonical::Canonical::of(&json!({ "other": 1 })).unwrap();
    let case = Case::approved(DELETES).apply(EventBody::Asked(Arc::new(question)));
    let (journal, texts) = stored(case.events(), &[]);
    assert!(texts[0].contains(r#"{"asked":{"#) && texts[0].contains(r#"{"askedOfCall":{"#), "{}", texts[0]);
    assert_eq!(read(&texts).unwrap(), journal);
}

#[test]
fn an_end_with_logs_is_stored_whole() {
    let case = Case::script().read(0);
    let logs = vec![LogLine { level: LogLevel::Info, message: "hello".into() }];
    let case = case.apply(EventBody::Finished { outcome: succeeded(), logs });
    let (journal, texts) = stored(case.events(), &[]);
    assert_eq!(read(&texts).unwrap(), journal);
}

#[test]
fn a_reference_to_nothing_is_an_error() {
    let (_, texts) = stored(samples()[0].0.events(), &[1, 2, 3, 5]);
    let without_the_call = [texts[0].clone(), texts[2].clone()];
    assert!(matches!(read(&without_the_call), Err(CommitError::Dangling(CallNo(0)))));
    let without_the_outcome = [r#"{"v":1,"at":5,"events":[{"finishedAsCall":{"call":0}}]}"#.to_owned()];
    assert!(matches!(read(&without_the_outcome), Err(CommitError::Dangling(CallNo(0)))));
}

#[test]
fn another_version_is_refused_and_says_what_to_do() {
    for newer in [r#"{"v":2,"at":1,"events":[]}"#, r#"{"v":2,"other":"form"}"#] {
        let error = Commit::parse(newer).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("run a newer countersign"), "{error}");
    }
    assert!(matches!(Commit::parse(r#"{"v":1,"at":[1],"events":[]}"#), Err(CommitError::Moments)));
    assert!(matches!(Commit::parse(r#"{"v":1,"events":[]}"#), Err(CommitError::Form(_))));
}

#[test]
fn moments_that_differ_are_kept_each() {
    let case = Case::new().issue(READS);
    let commit = StoredCommit::of(case.events(), None).unwrap();
    assert!(commit.text().starts_with(r#"{"v":1,"at":[1,2],"#), "{}", commit.text());
    assert_eq!(read(&[commit.into_text()]).unwrap(), case.events());
    assert_eq!(case.events()[0].at, ms(1));
}
