//! One agent's sleeping scripts, more than there are children and as many as it may have: others are served meanwhile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::server::{Client, Home, INITIALIZE, INITIALIZED, at_once};

/// What one agent may have of the 256 scripts in memory.
const MOST_OF_ONE: usize = 128;

/// Below the 26 s that an approved script once waited. A script without a place is refused after ten seconds, so that it does not pass.
const AT_ONCE: Duration = Duration::from_secs(24);

const RUN: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"script":"return 1;"}}}"#;

fn agent(home: &Home, name: &str) -> Client {
    let made = home.run(&["token", "create", "--role", "agent", "--name", name]);
    assert!(made.status.success(), "{made:?}");
    Client::new(&home.url, String::from_utf8(made.stdout).unwrap().trim())
}

fn sleeping() -> Value {
    json!({ "code": "await sleep(3_600_000);", "waitMs": 0 })
}

async fn flood(client: &Client) {
    let client = client.clone();
    let statuses = at_once(vec![(); MOST_OF_ONE], 16, move |()| {
        let client = client.clone();
        async move { client.try_post("/api/executions", &sleeping()).await.unwrap().0 }
    });
    assert!(statuses.await.iter().all(|status| *status == 200 || *status == 202), "each of them is accepted");
}

async fn runs_at_once(client: &Client) -> Duration {
    let begun = Instant::now();
    let done = client.post("/api/executions", &json!({ "code": "return 1;" })).await;
    assert_eq!(done["value"], json!(1), "{done}");
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeping_scripts_of_one_agent_keep_neither_others_nor_approved_ones_waiting() {
    let mut home = Home::served();
    let (a, b, c) = (agent(&home, "a"), agent(&home, "b"), agent(&home, "c"));
    let pays = json!({ "code": "return (await tools.bank.pay({ to: 'ann', amount: 5 })).to;" });
    let paused = c.post("/api/executions", &pays).await;
    assert_eq!(paused["status"], "paused", "{paused}");
    flood(&a).await;

    let response = a.raw("/api/executions", &sleeping()).await;
    assert_eq!(response.status().as_u16(), 503);
    let after: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(
        (&problem["code"], &problem["retryAfterSeconds"]),
        (&json!("busy"), &json!(after)),
        "{problem}"
    );

    let said = a.over_mcp(&[INITIALIZE, INITIALIZED, RUN]).await;
    assert!(said[2].contains("busy: ") && said[2].contains(&format!("try again in {after} s")), "{said:?}");

    let took = runs_at_once(&b).await;
    println!("another agent's script took {took:?}");
    assert!(took < AT_ONCE, "{took:?}");

    // After a restart every one of them is replayed, and so is the one that was approved.
    home.kill();
    home.start();
    let admin = home.client("admin");
    let id = paused["executionId"].as_str().unwrap();
    let begun = Instant::now();
    let (status, decided) = admin.decide(id, true).await.unwrap();
    assert_eq!(status, 200, "{decided}");
    let c = c.at(&home.url);
    let end = loop {
        let end = c.get(&format!("/api/executions/{id}?waitMs=1000")).await;
        if end["status"] != "running" || begun.elapsed() > AT_ONCE {
            break end;
        }
    };
    println!("the approved script took {:?}", begun.elapsed());
    assert_eq!((&end["status"], &end["value"]), (&json!("succeeded"), &json!("ann")), "{end}");
    let took = runs_at_once(&b.at(&home.url)).await;
    assert!(took < AT_ONCE, "{took:?}");
}
