//! Published servers from npm and PyPI: what they offer, what they answer, what they ask.

use countersign_sdk::EffectClass;
use countersign_sources::mcp::{Annotations, Era, OutcomeKind, Protocol, UpstreamEvent};
use serde_json::json;

use crate::fixture::{Person, call, connect, no_arguments, text};
use crate::toolbox::{command, published, python, script_server};
use countersign_sources::http::Intent;

#[tokio::test]
async fn the_filesystem_server_reads_and_writes_the_folder_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let files = connect(published("server-filesystem", &[folder.to_str().unwrap()])).await;
    assert_eq!(files.era().await, Ok(Era::Legacy));
    let offer = files.offer().await.unwrap();
    let names: Vec<_> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(names.contains(&"read_text_file") && names.contains(&"write_file"), "{names:?}");
    assert!(offer.unmapped.is_empty(), "{:?}", offer.unmapped);
    assert!(offer.tools.iter().all(|tool| tool.effects.class() == EffectClass::Destroys));

    let path = folder.join("note.txt");
    files.write("write_file", json!({ "path": path, "content": "hello" })).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "hello");
    let read = files.read("read_text_file", json!({ "path": path })).await.unwrap();
    assert_eq!((text(&read), read.kind), ("hello", OutcomeKind::Succeeded));
    let outside = files.read("read_text_file", json!({ "path": "/etc/hostname" })).await.unwrap();
    assert_eq!(outside.kind, OutcomeKind::Failed);
}

#[tokio::test]
async fn annotations_of_a_trusted_server_decide_about_effects() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = published("server-filesystem", &[folder.path().to_str().unwrap()]);
    config.annotations = Annotations::Trust;
    let offer = connect(config).await.offer().await.unwrap();
    let class = |name: &str| offer.tools.iter().find(|tool| tool.name == name).unwrap().effects.class();
    assert_eq!(class("read_text_file"), EffectClass::Reads);
    assert_eq!(class("write_file"), EffectClass::Destroys);
    assert_eq!(class("create_directory"), EffectClass::Writes);
}

#[tokio::test]
async fn the_memory_and_the_thinking_server_answer_with_structured_content() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.json");
    let variables = [("MEMORY_FILE_PATH", file.to_str().unwrap())];
    let script = "node_modules/@modelcontextprotocol/server-memory/dist/index.js";
    let memory = connect(script_server(script, &[], &variables)).await;
    let entities = json!({ "entities": [{ "name": "a", "entityType": "t", "observations": ["o"] }] });
    memory.write("create_entities", entities).await.unwrap();
    let graph = memory.read("read_graph", no_arguments()).await.unwrap();
    assert_eq!(graph.structured.unwrap()["entities"][0]["name"], "a");

    let thinking = connect(published("server-sequential-thinking", &[])).await;
    let offer = thinking.offer().await.unwrap();
    assert_eq!(offer.tools[0].name, "sequentialthinking");
    assert!(offer.tools[0].output_schema.is_some());
    let thought =
        json!({ "thought": "x", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1 });
    assert_eq!(thinking.read("sequentialthinking", thought).await.unwrap().kind, OutcomeKind::Succeeded);
}

#[tokio::test]
async fn every_kind_of_content_of_the_everything_server_passes_through() {
    let everything = connect(published("server-everything", &["stdio"])).await;
    let block = async |tool: &str, arguments, index: usize| {
        everything.read(tool, arguments).await.unwrap().content[index].clone()
    };
    assert_eq!(block("echo", json!({ "message": "hi" }), 0).await["text"], "Echo: hi");
    assert_eq!(block("get-tiny-image", no_arguments(), 1).await["type"], "image");
    assert_eq!(block("get-resource-links", json!({ "count": 2 }), 1).await["type"], "resource_link");
    let reference = json!({ "resourceType": "Text", "resourceId": 1 });
    assert_eq!(block("get-resource-reference", reference, 1).await["type"], "resource");
    let weather = everything.read("get-structured-content", json!({ "location": "Chicago" })).await.unwrap();
    assert!(weather.structured.unwrap()["temperature"].is_number());
    let offer = everything.offer().await.unwrap();
    let unmapped: Vec<_> = offer.unmapped.iter().map(|unmapped| unmapped.origin.as_str()).collect();
    assert_eq!(unmapped, ["simulate-research-query"], "the tool that is only a task is left out");
}

#[tokio::test]
async fn resources_and_prompts_pass_through() {
    let everything = connect(published("server-everything", &["stdio"])).await;
    let resources = everything.resources().await.unwrap();
    let uri = resources[0]["uri"].as_str().unwrap();
    assert_eq!(everything.read_resource(uri).await.unwrap()["contents"][0]["uri"], uri);
    assert!(!everything.resource_templates().await.unwrap().is_empty());
    let prompts = everything.prompts().await.unwrap();
    assert!(prompts.iter().any(|prompt| prompt["name"] == "simple-prompt"), "{prompts:?}");
    let prompt = everything.prompt("simple-prompt", serde_json::Map::new()).await.unwrap();
    assert_eq!(prompt["messages"][0]["role"], "user");
}

#[tokio::test]
async fn a_question_of_a_legacy_server_reaches_the_person_of_its_call() {
    let everything = connect(published("server-everything", &["stdio"])).await;
    let person = Person::who_accepts(json!({ "name": "Ada", "check": true }));
    let mut asking = call("trigger-elicitation-request", no_arguments(), Intent::Write);
    asking.asker = person.clone();
    let outcome = everything.call(asking).await.unwrap();
    assert_eq!(person.messages(), ["Please provide inputs for the following fields:"]);
    assert_eq!(person.questions.lock().unwrap()[0].schema["properties"]["check"]["type"], "boolean");
    assert!(serde_json::to_string(&outcome.content).unwrap().contains("Ada"), "{outcome:?}");
}

#[tokio::test]
async fn progress_is_passed_on() {
    let everything = connect(published("server-everything", &["stdio"])).await;
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut long = call("trigger-long-running-operation", json!({ "duration": 1, "steps": 2 }), Intent::Read);
    let told = heard.clone();
    long.progress = std::sync::Arc::new(move |update| told.lock().unwrap().push(update.progress));
    everything.call(long).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.0]);
}

#[tokio::test]
async fn a_modern_server_from_pypi_is_spoken_to_in_its_own_era() {
    let python = python();
    let time = connect(command(python.to_str().unwrap(), &["-m", "mcp_server_time"], &[])).await;
    assert_eq!(time.era().await, Ok(Era::Modern));
    let offer = time.offer().await.unwrap();
    let own = ["convert_time", "get_current_time"];
    let requests = ["prompts.get", "prompts.list", "resources.list", "resources.read", "resources.templates"];
    assert_eq!(
        offer.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        [&own[..], &requests].concat()
    );
    let now = time.read("get_current_time", json!({ "timezone": "UTC" })).await.unwrap();
    assert!(serde_json::to_string(&now.content).unwrap().contains("UTC"), "{now:?}");
}

#[tokio::test]
async fn a_modern_servers_questions_come_round_by_round_and_their_state_is_recorded_first() {
    let mut config = script_server("asks.mjs", &[], &[]);
    config.protocol = Protocol::Modern;
    let asks = connect(config).await;
    let person = Person::who_accepts(json!({ "confirm": true }));
    let mut deploy = call("deploy", json!({ "env": "prod" }), Intent::Write);
    deploy.asker = person.clone();
    let outcome = asks.call(deploy.clone()).await.unwrap();
    assert_eq!((text(&outcome), person.messages()), ("deployed to prod", vec!["Deploy to prod?".to_owned()]));
    let round = person.rounds.lock().unwrap()[0].clone();
    assert!(round.number == 1 && round.request_state.is_some());

    // As after a restart: another process, the recorded round, and no question asked twice of the server.
    let again = connect(script_server("asks.mjs", &[], &[])).await;
    deploy.resume = Some(round);
    assert_eq!(text(&again.call(deploy).await.unwrap()), "deployed to prod");
}

#[tokio::test]
async fn a_modern_servers_new_tool_is_told_as_an_event() {
    let mut config = script_server("asks.mjs", &[], &[]);
    config.protocol = Protocol::Modern;
    let asks = connect(config).await;
    let count = asks.offer().await.unwrap().tools.len();
    // Whether the server listens yet cannot be seen; it adds the tool once and tells it to whoever listens then.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    asks.write("grow", no_arguments()).await.unwrap();
    asks.event(|event| *event == UpstreamEvent::ToolsChanged).await;
    assert_eq!(asks.offer().await.unwrap().tools.len(), count + 1);
}

#[tokio::test]
async fn a_modern_server_may_be_restarted_while_a_person_answers() {
    struct KillsTheServer(std::path::PathBuf);
    #[async_trait::async_trait]
    impl countersign_sources::mcp::Asker for KillsTheServer {
        async fn ask(&self, _: countersign_sources::mcp::Question) -> countersign_sources::mcp::Reply {
            for pid in crate::lifetime::processes_with("asks.mjs", self.0.to_str().unwrap()) {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
                    .unwrap();
            }
            // A person takes longer than the gateway needs to notice.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            countersign_sources::mcp::Reply::Accepted(json!({ "confirm": true }))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let mut config = script_server("asks.mjs", &[], &[("LEDGER", ledger.to_str().unwrap())]);
    config.protocol = Protocol::Modern;
    config.limits.restart_wait = std::time::Duration::from_secs(60);
    let asks = connect(config).await;
    let mut deploy = call("deploy", json!({ "env": "prod" }), Intent::Write);
    deploy.asker = std::sync::Arc::new(KillsTheServer(ledger.clone()));
    // Whether the gateway sees the end of the server before it sends is a race; either way the call runs at most once.
    match asks.call(deploy).await {
        Ok(outcome) => assert_eq!(text(&outcome), "deployed to prod"),
        Err(failure) => assert!(failure.is_in_doubt(Intent::Write), "{failure:?}"),
    }
    assert!(std::fs::read_to_string(&ledger).unwrap_or_default().lines().count() <= 1);
    asks.event(|event| *event == UpstreamEvent::Connected).await;
}
