//! A published MCP server behind the gate: the file system server from npm, as a child process.

use countersign_kernel::ports::{Acceptance, SourceConfig, SourceHealth, Sources as _, ToolStanding};
use countersign_sources::{Reading, SourceRegistry};
use countersign_testkit::world::{InTests as _, admin, fill, yes};
use serde_json::json;

use crate::shop::Shop;
use crate::toolbox::node_folder;

/// The server, for one folder.
fn files(folder: &std::path::Path) -> SourceConfig {
    let script = node_folder().join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let config = json!({ "name": "files", "kind": "mcp", "command": ["node", script, folder] });
    SourceConfig::read(&config).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tool_of_an_mcp_server_waits_for_a_person_unless_the_operator_says_that_it_reads() {
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let folder = folder.path().canonicalize().unwrap();
    let file = folder.join("note.txt");
    let mut config = files(&folder);
    config.tools.read_only = vec!["read_text_file".to_owned()];
    let offered = shop.registry.put(&admin(), config).await.unwrap();
    assert!(offered.summary.new > 5 && offered.summary.callable == 0, "{:?}", offered.summary);
    shop.registry.accept(&admin(), "files", Acceptance::default()).await.unwrap();

    let write = json!({ "path": file, "content": "countersigned" });
    let waiting = shop.gateway.ask("files.write_file", write).await.unwrap();
    assert!(waiting.paused().is_some() && !file.exists(), "nothing ran before the yes");
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert!(end.success(), "{end:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "countersigned");

    let read = shop.gateway.ask("files.read_text_file", json!({ "path": file })).await.unwrap();
    assert_eq!(read.value.unwrap()["content"][0]["text"], "countersigned");
    let outside = shop.gateway.ask("files.read_text_file", json!({ "path": "/etc/passwd" })).await.unwrap();
    assert_eq!(outside.error.unwrap().code, "upstream_error");
    let summary = shop.registry.show("files").await.unwrap().summary;
    assert_eq!((summary.calls.calls, summary.calls.errors), (3, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_an_mcp_source_ends_its_process_and_its_tools() {
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    shop.registry.put(&admin(), files(folder.path())).await.unwrap();
    let detail = shop.registry.accept(&admin(), "files", Acceptance::default()).await.unwrap();
    assert!(detail.tools.iter().all(|tool| tool.standing == ToolStanding::Accepted));
    shop.registry.remove(&admin(), "files").await.unwrap();
    let gone = shop.gateway.ask("files.list_directory", json!({ "path": "/" })).await.unwrap_err();
    assert_eq!(gone.code(), "tool_not_found");
}

/// The definition is looked at again right before a write is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_not_sent_to_a_tool_that_changed_since_and_people_are_shown_the_change() {
    let (shop, ledger) = (Shop::open().await, tempfile::NamedTempFile::new().unwrap());
    let variable = format!("LEDGER={}", ledger.path().display());
    let command = json!(["/usr/bin/env", variable, "node", node_folder().join("hostile.mjs"), "changes"]);
    let config = json!({ "name": "hostile", "kind": "mcp", "protocol": "legacy", "command": command });
    shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
    shop.registry.accept(&admin(), "hostile", Acceptance::default()).await.unwrap();
    let waiting = shop.gateway.ask("hostile.act", json!({})).await.unwrap();
    shop.gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = shop.gateway.end_of(&waiting).await;
    assert_eq!(end.error.as_ref().unwrap().code, "tool_changed", "{end:?}");
    assert_eq!(std::fs::read_to_string(ledger.path()).unwrap(), "", "the server was not called");
    let shown = async {
        while shop.registry.show("hostile").await.unwrap().summary.changed == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), shown).await.expect("the change is shown");
    let gone = shop.gateway.ask("hostile.act", json!({})).await.unwrap_err();
    assert_eq!(gone.code(), "tool_not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chosen_name_that_is_taken_or_no_path_spoils_nothing() {
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let mut config = files(folder.path());
    let names = [("read_text_file", "list_directory"), ("write_file", "Write File!")];
    config.tools.names = names.map(|(origin, name)| (origin.to_owned(), name.to_owned())).into();
    let offered = shop.registry.put(&admin(), config).await.unwrap();
    let path = |origin: &str| offered.tools.iter().find(|tool| tool.origin == origin).unwrap().path.as_str();
    assert_eq!(path("read_text_file"), "files.list_directory", "the operator's name wins");
    assert!(path("list_directory").starts_with("files.list_directory_"), "{}", path("list_directory"));
    assert_eq!(path("write_file"), "files.write_file");
    assert_eq!(offered.warnings.len(), 1, "{:?}", offered.warnings);
    let accepted = shop.registry.accept(&admin(), "files", Acceptance::default()).await.unwrap();
    assert_eq!(accepted.summary.callable, offered.tools.len());
}

#[tokio::test]
async fn a_command_that_does_not_start_is_not_added_and_the_reason_is_told() {
    let shop = Shop::open().await;
    let config = json!({ "name": "nothing", "kind": "mcp", "command": ["/no/such/program"] });
    let config = SourceConfig::read(&config).unwrap();
    let refused = shop.registry.put(&admin(), config).await.unwrap_err();
    assert_eq!(refused.code(), "source_unreachable");
    assert!(refused.to_string().contains("/no/such/program"), "{refused}");
    assert!(shop.registry.list().await.is_empty());
}

#[test]
fn a_misspelt_field_of_a_configuration_is_an_error() {
    let config = json!({ "name": "x", "kind": "mcp", "url": "https://x.example", "allowprivate": true });
    assert!(SourceConfig::read(&config).unwrap_err().to_string().contains("allowprivate"));
}

/// A server of the older era waits for its answer on a live connection, one of the newer era in rounds: both are asked about
/// at the gate first, and then in the source's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_a_server_asks_during_an_approved_call_reaches_the_inbox_in_its_name() {
    let legacy = ["node_modules/@modelcontextprotocol/server-everything/dist/index.js", "stdio"];
    let cases = [
        (
            legacy.as_slice(),
            "trigger_elicitation_request",
            json!({}),
            json!({ "name": "Ada", "check": true }),
            "Ada",
        ),
        (&["asks.mjs"], "deploy", json!({ "env": "prod" }), json!({ "confirm": true }), "deployed to prod"),
    ];
    for (script, tool, arguments, answer, expected) in cases {
        let shop = Shop::open().await;
        let script: Vec<String> = script.iter().map(|word| (*word).to_owned()).collect();
        let command =
            [&["node".to_owned(), node_folder().join(&script[0]).display().to_string()], &script[1..]]
                .concat();
        let config = json!({ "name": "upstream", "kind": "mcp", "command": command });
        shop.registry.put(&admin(), SourceConfig::read(&config).unwrap()).await.unwrap();
        shop.registry.accept(&admin(), "upstream", Acceptance::default()).await.unwrap();
        let path = format!("upstream.{tool}");
        let waiting = shop.gateway.ask(&path, arguments).await.unwrap();
        shop.gateway.ann_says(&waiting, yes()).await.unwrap();
        let question = loop {
            match shop.gateway.open().await.into_iter().find(|row| row.elicitation.message.contains("asks: "))
            {
                Some(row) => break row,
                None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        };
        assert!(question.elicitation.message.starts_with("upstream asks: "), "{question:?}");
        shop.gateway.ann_says(&waiting, fill(answer)).await.unwrap();
        let end = shop.gateway.end_of(&waiting).await;
        assert!(end.success() && end.value.as_ref().unwrap().to_string().contains(expected), "{end:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_away_at_the_start_is_tried_again_until_it_is_there() {
    let (shop, folder) = (Shop::open().await, tempfile::tempdir().unwrap());
    let program = folder.path().join("server.sh");
    let config =
        SourceConfig::read(&json!({ "name": "late", "kind": "mcp", "command": ["sh", program] })).unwrap();
    let gateway = shop.gateway.clone();
    let registry =
        SourceRegistry::start(gateway, vec![config], shop.secrets(), Reading::FromTheStart).await.unwrap();
    registry.read_all().await;
    assert_eq!(registry.show("late").await.unwrap().summary.health, SourceHealth::Failing);
    let script = format!("exec node {}\n", node_folder().join("asks.mjs").display());
    std::fs::write(&program, script).unwrap();
    while registry.show("late").await.unwrap().summary.health != SourceHealth::Ready {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(registry.show("late").await.unwrap().summary.new > 0);
}
