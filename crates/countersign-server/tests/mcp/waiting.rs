//! What a client hears while it waits, and how it stops waiting.

use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::ports::Page;
use countersign_sdk::Role;
use countersign_server::mcp::Announcement;
use countersign_testkit::world::yes;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::{Client, Era, Stream, approve, code, execution, text};
use crate::house::House;
use crate::tools::SLOWLY;

#[tokio::test]
async fn a_call_is_held_for_a_while_in_case_a_person_decides_elsewhere() {
    let house = House::with(|options| options.hold = Duration::from_secs(20)).await;
    let key = house.key(Role::Agent).await;
    for era in Era::ALL {
        let client = house.client_that(&key, era, json!({})).await;
        let call = client.call("lab__destroy_each", json!({ "what": "x" }));
        let deciding = async {
            let open = house.until_open(1).await;
            house.ann_says(open[0].elicitation.id, yes()).await
        };
        let (done, _) = tokio::join!(call, deciding);
        assert_eq!(done["structuredContent"], json!({ "done": true }), "{era:?}");
    }
    assert_eq!(house.effects().len(), 3);
}

#[tokio::test]
async fn a_call_that_nobody_decides_comes_back_paused_when_the_hold_is_over() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    for era in Era::ALL {
        let begun = Instant::now();
        let paused =
            house.client_that(&key, era, json!({})).await.call("lab__destroy", json!({ "what": "x" })).await;
        assert!(begun.elapsed() >= house.options.hold, "it was held");
        assert_eq!(paused["structuredContent"]["status"], "paused");
        assert_eq!(paused["structuredContent"]["paused"]["toolPath"], "lab.destroy");
        assert_ne!(paused["isError"], true, "waiting is no failure");
    }
}

#[tokio::test]
async fn a_call_that_was_parked_while_its_client_waits_is_answered_when_it_is_decided() {
    let house = House::that_parks().await;
    let key = house.key(Role::Agent).await;
    for (can, effects) in [(json!({}), 1), (json!({ "elicitation": {} }), 2)] {
        let client = house.client_that(&key, Era::November2025, can).await;
        let (_, mut call) = begin(&client, "lab__destroy_each", json!({ "what": "x" })).await;
        let open = house.until_open(1).await;
        for _ in 0..6_000 {
            if house.gateway.live() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(house.gateway.live(), 0, "it is parked");
        house.ann_says(open[0].elicitation.id, yes()).await;
        assert_eq!(call.answer().await["result"]["structuredContent"], json!({ "done": true }));
        assert_eq!(house.effects().len(), effects);
    }
}

/// The longest test here: a heartbeat comes every ten seconds, and raises the progress that a tool told of itself.
#[tokio::test]
async fn a_client_that_wants_progress_hears_that_it_is_not_forgotten() {
    let house = House::with(|options| options.hold = Duration::from_secs(12)).await;
    let key = house.key(Role::Agent).await;
    let mut old = house.client_that(&key, Era::November2025, json!({ "elicitation": {} })).await;
    let mut new = house.client_that(&key, Era::July2026, json!({})).await;
    old.meta = json!({ "progressToken": "old" });
    new.meta = json!({ "progressToken": 7 });
    let (mut asked, mut held, mut runs) = tokio::join!(
        old.begin("lab__destroy_each", json!({ "what": "x" })),
        new.begin("lab__destroy_each", json!({ "what": "y" })),
        new.begin("shop__wait", json!({})),
    );
    asked.until("elicitation/create").await;
    let said = runs.until("notifications/progress").await;
    let (one, other, more) = tokio::join!(
        asked.until("notifications/progress"),
        held.until("notifications/progress"),
        runs.until("notifications/progress"),
    );
    assert_eq!(one["params"]["progressToken"], "old");
    assert_eq!(other["params"]["progressToken"], 7);
    let progress = |heard: &Value| heard["params"]["progress"].as_f64().unwrap();
    assert_eq!((progress(&said), &said["params"]["message"]), (5.0, &json!("half")));
    assert_eq!(more["params"]["message"], "Still waiting.");
    assert!(progress(&more) > progress(&said), "{said} {more}");
    assert_eq!(held.answer().await["result"]["structuredContent"]["status"], "paused");
}

#[tokio::test]
async fn what_a_tool_says_is_heard_by_clients_that_want_it() {
    let house = House::open().await;
    let mut client = house.client(Era::July2026).await;
    client.meta = json!({ "progressToken": "t", "io.modelcontextprotocol/logLevel": "info" });
    let mut call = client.begin("shop__work", json!({})).await;
    let mut heard = Vec::new();
    let answer = loop {
        match call.next().await.unwrap() {
            message if message.get("result").is_some() => break message,
            message => heard.push(message),
        }
    };
    assert_eq!(text(&answer["result"]), "worked");
    let of = |method: &str| -> Vec<&Value> {
        heard.iter().filter(|m| m["method"] == method).map(|m| &m["params"]).collect()
    };
    let progress: Vec<f64> =
        of("notifications/progress").iter().map(|p| p["progress"].as_f64().unwrap()).collect();
    assert_eq!(progress.len(), 3);
    assert!(progress.windows(2).all(|pair| pair[0] < pair[1]), "{progress:?}");
    let logs: Vec<(&str, &str)> = of("notifications/message")
        .iter()
        .map(|p| (p["level"].as_str().unwrap(), p["data"].as_str().unwrap()))
        .collect();
    assert_eq!(logs, [("info", "begun {\"n\":1}"), ("warning", "nearly")], "a detail is below the level");

    let silent = house.client(Era::July2026).await;
    let mut call = silent.begin("shop__work", json!({})).await;
    let first = call.next().await.unwrap();
    assert!(first.get("result").is_some(), "who asks for nothing hears nothing: {first}");
}

#[tokio::test]
async fn a_client_of_the_2025_era_sets_how_much_it_hears() {
    let house = House::open().await;
    let mut client = house.client(Era::November2025).await;
    let mut announced = client.listen().await;
    client.ask("logging/setLevel", json!({ "level": "warning" })).await;
    client.meta = json!({ "progressToken": "t" });
    let mut call = client.begin("shop__work", json!({})).await;
    assert_eq!(call.until("notifications/progress").await["params"]["message"], "half");
    call.answer().await;
    let line = announced.until("notifications/message").await;
    assert_eq!(line["params"]["data"], "nearly", "the rest is below the level");
}

#[tokio::test]
async fn a_cancelled_call_of_the_2025_era_is_a_cancelled_execution() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let message =
        client.message("tools/call", json!({ "name": "lab__destroy", "arguments": { "what": "x" } }));
    let mut call = Stream::of(client.send(&message).await);
    call.until("elicitation/create").await;
    let id = house.only_question().await.execution;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
                         "params": { "requestId": message["id"], "reason": "changed my mind" } });
    client.send(&cancel).await;
    let ended = tokio::time::timeout(
        Duration::from_secs(60),
        house.gateway.wait(id, countersign_kernel::Patience::Unlimited),
    );
    let ended = ended.await.expect("it ends").unwrap().unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(ended.error.unwrap().message, "changed my mind");
    assert!(house.open_questions().await.is_empty(), "nobody is asked any more");
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a_cancelled_call_that_runs_is_told_so() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let message = client.message("tools/call", json!({ "name": "shop__wait", "arguments": {} }));
    let _call = client.send(&message).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": message["id"] } });
    client.send(&cancel).await;
    for _ in 0..6_000 {
        if house.gateway.live() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the handler was never told");
}

/// A cancellation by its client, of the request with this id.
fn cancellation(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// Begins a call, and gives back its request's id and its stream.
async fn begin(client: &Client, tool: &str, args: Value) -> (Value, Stream) {
    let message = client.message("tools/call", json!({ "name": tool, "arguments": args }));
    (message["id"].clone(), Stream::of(client.send(&message).await))
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_is_accepted_is_a_cancelled_execution() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let (id, _call) = begin(&client, "lab__destroy", json!({ "what": SLOWLY })).await;
    house.slow_hook.until_called().await;
    client.send(&cancellation(&id)).await;
    for _ in 0..6_000 {
        let all = house.gateway.executions(Default::default(), Page::first(10)).await.unwrap().items;
        if all.len() == 1 && all[0].status == Status::Cancelled {
            return assert!(house.open_questions().await.is_empty());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it goes on");
}

/// The bound on calls of one conversation.
const MAX_CALLS: usize = 256;

#[tokio::test]
async fn one_call_too_many_of_a_conversation_is_refused_and_a_place_that_is_left_is_free_again() {
    let house = House::open().await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::November2025).await;
    let mut calls = Vec::new();
    for _ in 0..MAX_CALLS {
        calls.push(begin(&client, "shop__wait", json!({})).await);
    }
    let refused = client.call("lab__read", json!({ "what": "x" })).await;
    assert_eq!(code(&refused), "too_many_calls");
    assert!(text(&refused).contains("wait until one of them is answered"), "{refused}");
    let other = house.client_of(&key, Era::November2025).await;
    assert_eq!(text(&other.call("lab__read", json!({ "what": "x" })).await), r#"{"what":"x"}"#);
    client.send(&cancellation(&calls[0].0)).await;
    until_served(&client).await;
}

#[tokio::test]
async fn beyond_its_calls_under_way_an_agent_is_told_so_in_every_era_and_another_is_served() {
    let house = House::with_calls_under_way(1).await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::November2025).await;
    let (id, _stream) = begin(&client, "shop__wait", json!({})).await;
    // The stream begins before the call is accepted.
    while client.call("lab__read", json!({ "what": "x" })).await["isError"] != true {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for era in Era::ALL {
        let refused = house.client_of(&key, era).await.call("lab__read", json!({ "what": "x" })).await;
        assert_eq!(code(&refused), "too_many_calls", "{refused}");
    }
    let other = house.client(Era::November2025).await;
    assert_eq!(text(&other.call("lab__read", json!({ "what": "x" })).await), r#"{"what":"x"}"#);
    client.send(&cancellation(&id)).await;
    until_served(&client).await;
}

/// Waits until a call of this conversation is not refused any more.
async fn until_served(client: &Client) {
    for _ in 0..6_000 {
        let read = client.call("lab__read", json!({ "what": "x" })).await;
        if read["isError"] != true {
            return;
        }
        assert_eq!(code(&read), "too_many_calls");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the place is never free");
}

/// Whether it had become an execution, or never would: both are off the list.
#[tokio::test]
async fn cancelled_calls_take_no_places() {
    let house = House::with(|options| options.hold = Duration::from_secs(60)).await;
    let client = house.client_that(&house.key(Role::Agent).await, Era::November2025, json!({})).await;
    let (_, mut waiting) = begin(&client, "lab__destroy", json!({ "what": "x" })).await;
    let paused = house.until_open(1).await[0].execution.to_string();
    for _ in 0..MAX_CALLS / 2 {
        for (tool, args) in [("resume", json!({ "execution_id": paused })), ("shop__wait", json!({}))] {
            let (id, _) = begin(&client, tool, args).await;
            client.send(&cancellation(&id)).await;
        }
    }
    until_served(&client).await;
    assert_eq!(house.open_questions().await.len(), 1, "who stops waiting with resume cancels nothing");
    house.ann_says(house.only_question().await.elicitation.id, yes()).await;
    assert_eq!(waiting.answer().await["result"]["structuredContent"], json!({ "done": true }));
}

#[tokio::test]
async fn a_failure_carries_its_code_where_programs_and_models_read_it() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let asked = client.call("lab__fail", json!({ "what": "error" })).await;
    let failed =
        client.retry("lab__fail", json!({ "what": "error" }), &asked, approve()).await["result"].clone();
    assert_eq!(code(&failed), "teapot");
    assert_eq!(text(&failed), "teapot: I am a teapot.");
    assert_eq!(failed["_meta"]["countersign/error"]["executionId"], execution(&failed));
}

#[tokio::test]
async fn a_changed_catalog_is_announced_in_both_eras() {
    let house = House::open().await;
    let old = house.client(Era::November2025).await;
    let mut old = old.listen().await;
    let client = house.client(Era::July2026).await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let mut new = Stream::of(client.send(&client.message("subscriptions/listen", params)).await);
    new.until("notifications/subscriptions/acknowledged").await;
    // The subscription is acknowledged a moment before it listens.
    tokio::time::sleep(Duration::from_millis(100)).await;
    house.options.announcer.announce(Announcement::Tools).await;
    old.until("notifications/tools/list_changed").await;
    new.until("notifications/tools/list_changed").await;
}

#[tokio::test]
async fn a_client_is_promised_to_hear_of_what_is_served_and_nothing_else() {
    let client = House::open().await.client(Era::July2026).await;
    let all = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
                      "resourceSubscriptions": ["file:///x"] });
    let message = client.message("subscriptions/listen", json!({ "notifications": all }));
    let acknowledged =
        Stream::of(client.send(&message).await).until("notifications/subscriptions/acknowledged").await;
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true }),
        "no source's single resources can be subscribed to: {acknowledged}"
    );
}

/// Otherwise an agent would take the silence for a failure, and call a second time.
#[tokio::test]
async fn a_server_that_stops_tells_whoever_waits_how_the_call_stands() {
    for era in Era::ALL {
        let house = House::with(|options| options.hold = Duration::from_secs(60)).await;
        let client = house.client_that(&house.key(Role::Agent).await, era, json!({})).await;
        let call = client.call("lab__destroy", json!({ "what": "x" }));
        let stopping = async {
            house.until_open(1).await;
            house.stop();
        };
        let (told, ()) = tokio::join!(call, stopping);
        assert_eq!(told["structuredContent"]["status"], "paused", "{era:?}: {told}");
        assert_eq!(house.open_questions().await.len(), 1, "it is kept");
        assert!(house.effects().is_empty());
    }
}

/// What is being accepted at that moment is accepted, and the client must not hear that nothing was called.
#[tokio::test]
async fn a_server_that_stops_while_a_call_is_accepted_tells_how_that_call_stands() {
    for era in Era::ALL {
        let house = House::with(|options| options.hold = Duration::from_secs(60)).await;
        let client = house.client_that(&house.key(Role::Agent).await, era, json!({})).await;
        let call =
            client.ask("tools/call", json!({ "name": "lab__destroy", "arguments": { "what": SLOWLY } }));
        let stopping = async {
            house.slow_hook.until_called().await;
            house.stop();
        };
        let (told, ()) = tokio::join!(call, stopping);
        assert_eq!(told["result"]["structuredContent"]["status"], "paused", "{era:?}: {told}");
        let kept = house.only_question().await;
        assert_eq!(execution(&told["result"]), kept.execution.to_string(), "it knows what to ask for");
    }
}

#[tokio::test]
async fn a_server_that_stops_while_a_decision_is_taken_tells_what_came_of_it() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let args = json!({ "what": "x" });
    let asked = client.call("lab__destroy", args.clone()).await;
    let before = house.faults.commits();
    // A store that takes its time, so that the server stops after the decision is written and before anybody knows.
    drop(house.faults.clone().yielding_at_random(20_000, 1));
    let retry = client.retry("lab__destroy", args, &asked, approve());
    let stopping = async {
        while house.faults.commits() == before {
            tokio::task::yield_now().await;
        }
        house.stop();
    };
    let (told, ()) = tokio::join!(retry, stopping);
    assert_eq!(told["result"]["structuredContent"], json!({ "done": true }), "{told}");
    assert_eq!(house.effects(), ["x"]);
}
