//! Resources and prompts of sources go the whole way of a call: policy, people, records. And how large a source may be to be
//! listed tool by tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_core::ids::ExecutionId;
use countersign_kernel::ports::{ExecutionFilter, Page};
use countersign_kernel::{Answer, Coverage, SourceList};
use countersign_sdk::{Ctx, ForeignInput, McpRequest, Role, Tool};
use serde_json::{Value, json};

use crate::client::{Client, Era, Stream};
use crate::house::House;
use crate::sources::{READS, listed, reads};

const URI: &str = "files+file:///a";

/// How often a source was read.
#[derive(Clone, Default)]
struct Reads(Arc<AtomicUsize>);

impl Reads {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A tool that stands for a request, answers this, and counts.
    fn tool(&self, path: &str, request: McpRequest, answer: Value) -> Tool {
        let reads = self.clone();
        let tool = Tool::foreign(path, json!({ "type": "object" }), None, READS).unwrap();
        tool.mcp_request(request).handler(move |_: Ctx, _: ForeignInput| {
            let answer = answer.clone();
            reads.0.fetch_add(1, Ordering::SeqCst);
            async move { Ok(answer) }
        })
    }
}

/// A house under a rule about reading, with a source that can be read.
async fn house(rule: &str) -> (House, Reads) {
    let house = House::under(rule).await;
    let reads = Reads::default();
    let contents = json!({ "contents": [{ "uri": "file:///a", "text": "hello" }] });
    let messages = json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }] });
    let tools = vec![
        reads.tool("files.resources.read", McpRequest::ReadResource, contents),
        reads.tool("files.prompts.get", McpRequest::GetPrompt, messages),
    ];
    house.gateway.replace_source("files", tools).await.unwrap();
    (house, reads)
}

async fn read(client: &Client) -> Value {
    client.ask("resources/read", json!({ "uri": URI })).await
}

/// The execution behind a request that waits for a person.
fn waiting(answer: &Value) -> &str {
    assert_eq!(answer["error"]["data"]["code"], "approval_pending", "{answer}");
    answer["error"]["data"]["executionId"].as_str().unwrap()
}

#[tokio::test]
async fn a_read_that_waits_for_a_person_asks_once_and_runs_once_however_often_it_is_repeated() {
    for era in Era::ALL {
        let (house, reads) = house("[[rule]]\nmatch = \"files.resources.read\"\neffect = \"ask\"\n").await;
        let key = house.key(Role::Agent).await;
        let client = house.client_that(&key, era, json!({})).await;
        let first = read(&client).await;
        let execution = waiting(&first).to_owned();
        assert!(first["error"]["message"].as_str().unwrap().contains("again"), "it says what to do: {first}");
        assert_eq!(waiting(&read(&client).await), execution, "{era:?}: the same call is gone on with");
        // Also over another connection, as after a client was started anew.
        let again = house.client_that(&key, era, json!({})).await;
        assert_eq!(waiting(&read(&again).await), execution);
        let open = house.until_open(1).await;
        assert_eq!(reads.count(), 0, "nothing is read before a person says so");

        // Somebody else who asks for the same is somebody else to decide about.
        let other = house.client_that(&house.unattended_key().await, era, json!({})).await;
        assert_ne!(waiting(&read(&other).await), execution);
        house.until_open(2).await;

        house
            .ann_says(open[0].elicitation.id, Answer::Approve { covers: Some(Coverage::Call), data: None })
            .await;
        let given = read(&client).await;
        assert_eq!(given["result"]["contents"], json!([{ "uri": URI, "text": "hello" }]), "{given}");
        assert_eq!(given["result"]["_meta"]["countersign/executionId"], execution);
        assert_eq!(reads.count(), 1);
        assert_ne!(waiting(&read(&client).await), execution, "the approval was for one read");
        assert_eq!(reads.count(), 1);
    }
}

#[tokio::test]
async fn a_read_that_a_person_or_a_rule_denies_does_not_run() {
    for era in Era::ALL {
        let (house, reads) = house(
            "[[rule]]\nmatch = \"files.resources.read\"\neffect = \"ask\"\n\
             [[rule]]\nmatch = \"files.prompts.get\"\neffect = \"deny\"\nreason = \"no prompts here\"\n",
        )
        .await;
        let client = house.client_that(&house.key(Role::Agent).await, era, json!({})).await;
        waiting(&read(&client).await);
        let open = house.until_open(1).await;
        house.ann_says(open[0].elicitation.id, Answer::Deny).await;
        let denied = read(&client).await;
        assert_eq!(denied["error"]["data"]["code"], "denied", "{denied}");

        let denied = client.ask("prompts/get", json!({ "name": "files__greet" })).await;
        assert_eq!(denied["error"]["data"]["code"], "denied", "{denied}");
        assert!(denied["error"]["message"].as_str().unwrap().contains("no prompts here"), "{denied}");
        assert_eq!(reads.count(), 0);
    }
}

#[tokio::test]
async fn a_client_that_can_ask_its_user_asks_about_a_read_in_the_2025_era() {
    let (house, reads) = house("[[rule]]\nmatch = \"files.resources.read\"\neffect = \"ask\"\n").await;
    let client = house.client(Era::November2025).await;
    let mut stream = Stream::of(client.send(&client.message("resources/read", json!({ "uri": URI }))).await);
    let asked = stream.until("elicitation/create").await;
    assert_eq!(reads.count(), 0);
    client.answer(&asked, crate::client::approve()).await;
    let given = stream.answer().await;
    assert_eq!(given["result"]["contents"][0]["text"], "hello", "{given}");
    assert_eq!(reads.count(), 1);
}

#[tokio::test]
async fn a_read_is_recorded_as_the_call_that_it_is() {
    let (house, _) = house("").await;
    let key = house.key(Role::Agent).await;
    let client = house.client_of(&key, Era::July2026).await;
    let given = read(&client).await;
    let execution = given["result"]["_meta"]["countersign/executionId"].as_str().unwrap();
    let execution: ExecutionId = execution.parse().unwrap();
    let row = house.gateway.execution(execution).await.unwrap().expect("it is recorded");
    assert_eq!(row.status, Status::Succeeded);
    assert_eq!(row.tool.as_ref().map(|tool| tool.as_str()), Some("files.resources.read"));
    let all = house.gateway.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap();
    assert_eq!(all.items.len(), 1, "one read is one execution");
    let audit = house.gateway.audit(0, 100).await.unwrap();
    let records = audit.iter().map(|record| record.parse().unwrap());
    let records: Vec<_> = records.filter(|of| of[0].execution == Some(execution)).collect();
    let [entries] = &records[..] else { panic!("one read is one record: {records:?}") };
    let what: Vec<&str> = entries.iter().map(|entry| &*entry.what).collect();
    assert_eq!(what, ["Started", "CallIssued", "CallStarted", "CallSettled", "Finished"]);
    assert_eq!(entries[0].by.as_ref().unwrap().to_string(), key.id.to_string(), "{entries:?}");
    assert_eq!(entries[1].detail, "files.resources.read", "{entries:?}");
}

#[tokio::test]
async fn a_source_that_says_its_lists_changed_is_passed_on_in_both_eras() {
    let house = House::open().await;
    let old = house.client(Era::November2025).await;
    let mut told_old = old.listen().await;
    let new = house.client(Era::July2026).await;
    let params = json!({ "notifications": { "resourcesListChanged": true, "promptsListChanged": true } });
    let mut told_new = Stream::of(new.send(&new.message("subscriptions/listen", params)).await);
    told_new.until("notifications/subscriptions/acknowledged").await;
    for (list, method) in [
        (SourceList::Resources, "notifications/resources/list_changed"),
        (SourceList::Prompts, "notifications/prompts/list_changed"),
    ] {
        let gateway = house.gateway.clone();
        // A subscription is acknowledged a moment before it listens, so the source says it more than once.
        let says = tokio::spawn(async move {
            loop {
                gateway.tell_list_changed("files", list);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        told_old.until(method).await;
        told_new.until(method).await;
        says.abort();
    }
}

#[tokio::test]
async fn a_source_is_listed_up_to_its_bound_and_found_and_called_beyond_it() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let many = |count: usize| {
        let mut tools: Vec<Tool> = (0..count).map(|n| reads(&format!("many.tool_{n:02}"))).collect();
        // Resources and prompts are no part of the count: clients have them in their own way.
        tools.push(Reads::default().tool("many.prompts.get", McpRequest::GetPrompt, json!({})));
        tools
    };
    let ours = async || {
        let names = listed(&client).await;
        names.into_iter().filter(|name| name.starts_with("many__")).collect::<Vec<_>>()
    };
    house.gateway.replace_source("few", vec![reads("few.only")]).await.unwrap();
    house.gateway.replace_source("many", many(40)).await.unwrap();
    let listed_40 = ours().await;
    assert_eq!((listed_40.len(), listed_40.last().unwrap().as_str()), (40, "many__tool_39"));

    house.gateway.replace_source("many", many(41)).await.unwrap();
    assert!(ours().await.is_empty(), "half a source would look like a whole one");
    assert!(listed(&client).await.contains(&"few__only".to_owned()), "other sources are listed as before");
    for n in 0..=40 {
        let (path, name) = (format!("many.tool_{n:02}"), format!("many__tool_{n:02}"));
        let found = client.call("search_tools", json!({ "query": path, "limit": 5 })).await;
        let hit = &found["structuredContent"]["tools"][0];
        assert_eq!((&hit["path"], &hit["mcpName"]), (&json!(path), &json!(name)), "{found}");
        assert_eq!(hit["listed"], false, "{hit}");
        let called = client.call(&name, json!({ "n": n })).await;
        let text = called["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&path), "{called}");
    }
    let few = client.call("search_tools", json!({ "query": "few only" })).await;
    assert_eq!(few["structuredContent"]["tools"][0]["listed"], true, "{few}");
}
