//! Server-sent events: their names and order, that nothing is lost or told twice, and who is told of what.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::house::{House, PATIENCE, Who};
use crate::stream::{Event, Stream};

/// An execution from its question to its end.
async fn destroyed(house: &House, what: &str) -> String {
    let waiting = house.wants_to_destroy(what).await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    waiting.execution
}

fn ids(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

/// The number of an event's record, and its own within it.
fn place(id: &str) -> (u64, u32) {
    match id.split_once('.') {
        None => (id.parse().unwrap(), u32::MAX),
        Some((seq, event)) => (seq.parse().unwrap(), event.parse().unwrap()),
    }
}

#[tokio::test]
async fn a_calls_life_is_told_in_order_under_the_promised_names() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let execution = destroyed(&house, "a").await;
    let mut names: Vec<String> = Vec::new();
    // Reading ends with the record of the end.
    for event in stream.until(|event| event.name == "call.settled").await {
        assert_eq!(event.data["executionId"], execution);
        names.push(event.name);
    }
    let end = stream.next().await.unwrap();
    assert_eq!((end.name.as_str(), &end.data["status"]), ("execution.status", &json!("succeeded")));
    names.push(end.name);
    names.dedup();
    assert_eq!(
        names,
        [
            "elicitation.pending",
            "execution.status",
            "elicitation.decided",
            "call.started",
            "execution.status",
            "call.settled",
            "execution.status",
        ]
    );
}

#[tokio::test]
async fn a_question_is_told_with_what_a_person_must_see() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let waiting = house.wants_to_destroy("note 7").await;
    let seen = stream.until(|event| event.name == "elicitation.pending").await;
    let told = &seen.last().unwrap().data;
    assert_eq!(told["elicitationId"], waiting.elicitation);
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    assert_eq!(told["elicitation"], one);
}

#[tokio::test]
async fn ids_go_up_and_are_the_numbers_of_the_audit() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let execution = destroyed(&house, "a").await;
    let seen = stream.until_done(&execution).await;
    let places: Vec<(u64, u32)> = ids(&seen).into_iter().map(place).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
    assert!(places.last().unwrap().0 <= house.recorded().await);
}

#[tokio::test]
async fn whoever_comes_back_goes_on_where_they_were_with_nothing_lost_or_doubled() {
    let house = House::open().await;
    let begin = house.recorded().await;
    let mut executions = Vec::new();
    for n in 0..4 {
        executions.push(destroyed(&house, &n.to_string()).await);
    }
    let whole = Stream::open(&house, Who::Approver, Some(begin)).await.until_done(&executions[3]).await;
    // A client that is cut off after every single event and comes back with the last id it saw.
    for cut in 1..whole.len() {
        let mut first = Stream::open(&house, Who::Approver, Some(begin)).await;
        let mut seen = Vec::new();
        for _ in 0..cut {
            seen.push(first.next().await.unwrap());
        }
        drop(first);
        // Also in the middle of a record.
        let last = &seen.last().unwrap().id;
        let mut second = Stream::at(&house, Who::Approver, "/api/events", Some(last)).await;
        while seen.len() < whole.len() {
            seen.push(second.next().await.unwrap());
        }
        assert_eq!(seen, whole, "cut after {cut}");
    }
}

#[tokio::test]
async fn the_stream_goes_on_across_a_restart_of_the_server() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let waiting = house.wants_to_destroy("a").await;
    let seen = stream.until(|event| event.name == "elicitation.pending").await;
    let last = seen.last().unwrap().id.clone();
    assert!(last.contains('.'), "in the middle of a record");
    let house = house.after().await;
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    house.end_of(&waiting.execution).await;
    let mut stream = Stream::at(&house, Who::Approver, "/api/events", Some(&last)).await;
    let rest = stream.until_done(&waiting.execution).await;
    let both: BTreeSet<&str> = ids(&seen).into_iter().chain(ids(&rest)).collect();
    assert_eq!(both.len(), ids(&seen).len() + ids(&rest).len(), "nothing is told twice");
    let names: Vec<&str> = rest.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "elicitation.pending").count(), 0);
    for name in ["elicitation.decided", "call.started", "call.settled"] {
        assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name} in {names:?}");
    }
}

#[tokio::test]
async fn where_no_header_can_be_sent_a_stream_begins_after_what_is_named_and_the_header_goes_before_it() {
    let house = House::open().await;
    let before = destroyed(&house, "before").await;
    let after = house.get(Who::Approver, "/api/standing").await.with(200)["recorded"].as_u64().unwrap();
    let execution = destroyed(&house, "after").await;
    let of = |events: Vec<Event>| events.iter().any(|event| event.data["executionId"] == before.as_str());
    let mut named = Stream::at(&house, Who::Approver, &format!("/api/events?after={after}"), None).await;
    assert!(!of(named.until_done(&execution).await));
    let mut headed =
        Stream::at(&house, Who::Approver, &format!("/api/events?after={after}"), Some("0")).await;
    assert!(of(headed.until_done(&execution).await), "a browser that comes back says where it was");
}

#[tokio::test]
async fn in_brief_a_stream_tells_of_questions_and_decisions_without_what_was_said() {
    let house = House::open().await;
    let mut stream = Stream::at(&house, Who::Approver, "/api/events?brief=true", None).await;
    let execution = destroyed(&house, "a-secret-thing").await;
    let events = stream.until_done(&execution).await;
    let decided = events.iter().find(|event| event.name == "elicitation.decided").unwrap();
    assert_eq!(decided.data["elicitation"]["decision"]["byName"], "approver");
    assert!(decided.data["elicitation"]["toolPath"].is_string());
    let all = format!("{events:?}");
    assert!(!all.contains("a-secret-thing"), "{all}");
}

#[tokio::test]
async fn without_a_last_event_id_the_stream_begins_now_and_an_id_from_the_future_means_now() {
    let house = House::open().await;
    destroyed(&house, "before").await;
    let mut now = Stream::open(&house, Who::Approver, None).await;
    let mut future = Stream::open(&house, Who::Approver, Some(1_000_000)).await;
    let execution = destroyed(&house, "after").await;
    for stream in [&mut now, &mut future] {
        let seen = stream.until_done(&execution).await;
        assert!(seen.iter().all(|event| event.data["executionId"] == execution), "{seen:?}");
    }
}

#[tokio::test]
async fn an_agent_is_told_of_its_own_and_nobody_elses() {
    let house = House::open().await;
    let mut other = Stream::open(&house, Who::OtherAgent, Some(0)).await;
    let mut service = Stream::open(&house, Who::Service, Some(0)).await;
    let mut own = Stream::open(&house, Who::Agent, Some(0)).await;
    let mine = destroyed(&house, "mine").await;
    own.until_done(&mine).await;
    let call = json!({ "tool": "lab.read", "args": { "what": "x" } });
    let theirs = house.post(Who::OtherAgent, "/api/executions", call).await.with(200);
    let theirs = theirs["executionId"].as_str().unwrap();
    let first = other.until_done(theirs).await;
    assert!(first.iter().all(|event| event.data["executionId"] == theirs), "{first:?}");
    let silent = tokio::time::timeout(Duration::from_millis(1_500), service.next()).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[tokio::test]
async fn what_is_recorded_in_passing_is_told_without_being_asked_for() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let read = house.call("lab.read", json!({ "what": "x" })).await.with(200);
    stream.until_done(read["executionId"].as_str().unwrap()).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_nobody_up() {
    let house = House::open().await;
    let _idle = Stream::open(&house, Who::Approver, Some(0)).await;
    let mut reading = Stream::open(&house, Who::Approver, None).await;
    let mut last = String::new();
    for n in 0..50 {
        last = destroyed(&house, &n.to_string()).await;
    }
    reading.until_done(&last).await;
}

#[tokio::test]
async fn the_stream_ends_when_the_server_stops() {
    let house = House::open().await;
    let mut stream = Stream::open(&house, Who::Approver, None).await;
    let begun = tokio::time::Instant::now();
    let ((), end) = tokio::join!(house.server.stop(Duration::from_secs(1)), stream.next());
    assert_eq!(end, None);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_on_which_nothing_happens_shows_that_it_is_alive() {
    let house = House::open().await;
    let request =
        house.request(Who::Approver, reqwest::Method::GET, "/api/events").timeout(Duration::from_secs(60));
    let mut response = request.send().await.unwrap();
    let begun = tokio::time::Instant::now();
    let sign = tokio::time::timeout(PATIENCE, response.chunk()).await;
    let sign = sign.expect("a sign of life").unwrap().unwrap();
    assert!(sign.starts_with(b":"), "a comment, which clients skip: {sign:?}");
    assert!(begun.elapsed() > Duration::from_secs(5), "and not a flood of them");
}

#[tokio::test]
async fn a_change_of_the_catalog_is_told_to_everybody_who_listens() {
    let house = House::open().await;
    for who in [Who::Approver, Who::Agent] {
        let mut stream = Stream::open(&house, who, None).await;
        let effects = countersign_sdk::Effects::default();
        let tool = countersign_sdk::Tool::foreign("files.read", json!({}), None, effects).unwrap();
        let tool = tool.handler(async |_, input| Ok(input.into_inner()));
        house.gateway.replace_source("files", vec![tool]).await.unwrap();
        let told = stream.until(|event| event.name == "catalog.changed").await;
        let told = told.last().unwrap();
        assert_eq!(told.data["detail"], "files: 1 added (files.read)");
        assert_eq!(told.id, house.recorded().await.to_string(), "a client that comes back goes on after it");
        house.gateway.remove_source("files").await.unwrap();
        let told = stream.until(|event| event.name == "catalog.changed").await;
        assert_eq!(told.last().unwrap().data["detail"], "files: 1 removed (files.read)");
    }
}
