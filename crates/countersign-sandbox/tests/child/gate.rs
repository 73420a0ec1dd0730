//! The whole table of hostile scripts, each turned against a destructive tool behind a real gateway: whatever it does, the
//! gate holds, nothing takes effect, and the next script is served.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::execution::Status;
use countersign_kernel::Gateway;
use countersign_sandbox::{ChildHost, ChildOptions, Limits};
use countersign_sdk::{Approved, Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab;
use countersign_testkit::ledger::Ledger;
use countersign_testkit::memory_store::MemoryStore;
use countersign_testkit::world::{InTests as _, agent, script, session};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::corpus;
use super::scene::worker;

/// Whatever a script hands over, as long as it is an object.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
struct Anything(Map<String, Value>);

/// A tool that destroys and takes anything, so that no argument of the table is stopped before the gate.
fn bait(ledger: &Ledger) -> Plugin {
    let ledger = ledger.clone();
    let destroy = Tool::new("bait.destroy")
        .name("Destroy")
        .describe("Destroys anything.")
        .destructive(|input: &Anything| format!("Destroy {} things?", input.0.len()))
        .handler(move |ctx: Ctx, _: Approved<Anything>| {
            let ledger = ledger.clone();
            async move {
                lab::happen(&ctx, &ledger, "bait").await;
                Ok::<_, ToolError>(Value::Null)
            }
        });
    Plugin::new("bait", "Bait", "What hostile scripts are after.").tool(destroy)
}

#[tokio::test]
async fn no_hostile_script_gets_past_the_gate() {
    let limits =
        Limits { cpu: Duration::from_millis(300), memory_bytes: 16 * 1024 * 1024, ..Limits::default() };
    let host = ChildHost::new(ChildOptions { limits, warm: 1, ..worker() }).unwrap();
    let ledger = Ledger::default();
    let store = Arc::new(MemoryStore::default());
    let gateway = Gateway::on(store).plugin(bait(&ledger)).plugin(lab::plugin(&ledger)).scripts(host);
    let gateway = gateway.start().await.unwrap();
    gateway.open_session(&agent(), "test", Some(session())).await.unwrap();
    let mut asked = 0;
    for hostile in corpus::all() {
        // What the table calls with its tricks is a tool that destroys.
        let source = ["tools.a.b", "tools.c.d", "tools.no.way"]
            .into_iter()
            .fold(hostile.script.to_owned(), |text, path| text.replace(path, "tools.bait.destroy"));
        match gateway.run(script(&source)).await {
            Ok(result) => {
                asked += result.pending.len();
                let odd = result.status == Status::InDoubt;
                assert!(!odd && ledger.effects().is_empty(), "{}: {result:?}", hostile.name);
                // What still runs or waits is stopped, so that it does not disturb the next.
                let _ = gateway.cancel(result.execution, &agent(), "next").await;
            }
            Err(error) => assert!(!error.code().is_empty(), "{}: {error}", hostile.name),
        }
        assert!(ledger.effects().is_empty(), "{} took effect", hostile.name);
    }
    println!("{asked} questions were asked on their behalf");
    assert!(asked > 20, "many of them must come as far as the gate, or this tests nothing: {asked}");
    let fine = gateway.runs("return (await tools.lab.read({ what: 'fine' })).what;").await;
    assert_eq!(fine.value, Some(json!("fine")), "{:?}", fine.error);
}
