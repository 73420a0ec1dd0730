//! Whose a conversation is, and what a request needs to get in.

use countersign_sdk::Role;
use serde_json::json;

use crate::client::{Era, approve, text};
use crate::house::{House, Key};

#[tokio::test]
async fn a_session_is_its_openers_and_to_others_it_does_not_exist() {
    let house = House::open().await;
    let mut owner = house.client(Era::November2025).await;
    let mut stranger = house.client(Era::November2025).await;
    std::mem::swap(&mut owner.session, &mut stranger.session);
    let message = stranger.message("tools/list", json!({}));
    let foreign = stranger.send(&message).await;
    assert_eq!(foreign.status(), 404);
    let foreign = foreign.text().await.unwrap();
    assert_eq!(stranger.request(reqwest::Method::GET).send().await.unwrap().status(), 404);
    assert_eq!(stranger.request(reqwest::Method::DELETE).send().await.unwrap().status(), 404);
    stranger.session = Some("no-such-session".into());
    let unknown = stranger.send(&message).await;
    assert_eq!(unknown.status(), 404);
    assert_eq!(unknown.text().await.unwrap(), foreign, "in the same words");
}

#[tokio::test]
async fn a_stranger_cannot_answer_the_prompt_of_another() {
    let house = House::open().await;
    let owner = house.client(Era::November2025).await;
    let mut call = owner.begin("lab__destroy", json!({ "what": "x" })).await;
    let prompt = call.until("elicitation/create").await;
    let mut stranger = house.client(Era::November2025).await;
    stranger.session = owner.session.clone();
    let answer = json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": approve() });
    assert_eq!(stranger.send(&answer).await.status(), 404);
    assert!(house.only_question().await.decision.is_none());
    owner.answer(&prompt, approve()).await;
    call.answer().await;
    assert_eq!(house.effects(), ["x"]);
}

#[tokio::test]
async fn a_session_that_was_ended_is_not_there_any_more() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    assert_eq!(client.request(reqwest::Method::DELETE).send().await.unwrap().status(), 202);
    assert_eq!(client.send(&client.message("tools/list", json!({}))).await.status(), 404);
}

#[tokio::test]
async fn a_request_without_a_caller_gets_nothing_even_past_a_guard_that_forgot_it() {
    let house = House::open().await;
    let agent = house.key(Role::Agent).await;
    let forgotten = Key { secret: "forgotten".into(), id: agent.id };
    let client = house.client_of(&forgotten, Era::July2026).await;
    let message = client.message("tools/call", json!({ "name": "lab__read", "arguments": { "what": "x" } }));
    assert_eq!(client.send(&message).await.status(), 401);
}

#[tokio::test]
async fn clients_of_one_token_share_no_approvals_in_the_2025_era() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let one = house.client_of(&key, Era::November2025).await;
    let mut call = one.begin("lab__destroy", json!({ "what": "a" })).await;
    call.until("elicitation/create").await;
    house.approves_for_the_session().await;
    call.answer().await;
    assert_eq!(
        one.call("lab__destroy", json!({ "what": "a" })).await["structuredContent"],
        json!({ "done": true })
    );
    let other = house.client_of(&key, Era::November2025).await;
    let mut call = other.begin("lab__destroy", json!({ "what": "b" })).await;
    call.until("elicitation/create").await;
    assert_eq!(house.effects(), ["a", "a"]);
}

#[tokio::test]
async fn whoever_opens_too_many_sessions_loses_their_own_and_nobody_elses() {
    const MAX_SESSIONS_OF_ONE: usize = 256;
    let house = House::open().await;
    let (greedy, other) = (house.key(Role::Agent).await, house.client(Era::November2025).await);
    let first = house.client_of(&greedy, Era::November2025).await;
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "" }
    } });
    let mut opener = house.client_of(&greedy, Era::November2025).await;
    opener.session = None;
    for _ in 2..MAX_SESSIONS_OF_ONE {
        assert_eq!(opener.send(&hello).await.status(), 200);
    }
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(other.send(&list).await.status(), 200);
    assert_eq!(first.send(&list).await.status(), 200, "as many as it may have");
    for _ in 0..MAX_SESSIONS_OF_ONE {
        assert_eq!(opener.send(&hello).await.status(), 200);
    }
    assert_eq!(first.send(&list).await.status(), 404, "its own made room");
    assert_eq!(other.send(&list).await.status(), 200);
}

#[tokio::test]
async fn a_body_past_its_bound_is_refused() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let what = "x".repeat(4 * 1024 * 1024);
    let message = client.message("tools/call", json!({ "name": "lab__read", "arguments": { "what": what } }));
    assert_eq!(client.send(&message).await.status(), 413);
}

#[tokio::test]
async fn a_client_with_an_odd_name_is_served() {
    let house = House::open().await;
    for name in ["", "\u{0}\n", &"é".repeat(500)] {
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "" }
        } });
        let mut client = house.client(Era::November2025).await;
        client.session = None;
        let answer = crate::client::Stream::of(client.send(&hello).await).answer().await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "countersign", "{name:?}");
    }
    let read = house.client(Era::November2025).await.call("lab__read", json!({ "what": "x" })).await;
    assert_eq!(text(&read), r#"{"what":"x"}"#);
}
