//! What a person can do besides deciding: stop, settle, try, hand out and take back, check the record.

use reqwest::Method;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::desk::{Waiting, Who, until};
use crate::house::House;
use crate::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_tried_goes_through_the_gate_and_its_execution_can_be_cancelled() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.go(&house.desk, "/tools?query=erase").await;
    browser.click("a[href='/tools/lab.erase']").await;
    browser.says("main", "would need approval").await;
    browser.write("[name='args.what']", "the attic").await;
    browser.click("form[data-api] button").await;
    browser.until("its execution is shown", "location.pathname.startsWith('/executions/')").await;
    browser.says(".stands", "waiting").await;
    assert!(house.ran.all().is_empty(), "it asked first, like any call");
    let execution = browser.path().await.trim_start_matches("/executions/").to_owned();
    let waits = house.desk.get(Who::Admin, &format!("/api/executions/{execution}")).await;
    assert_eq!(waits["paused"]["args"], json!({ "what": "the attic" }));

    browser.click_and_agree("form[data-api$='/cancel'] button").await;
    browser.says(".stands", "cancelled").await;
    let ended = house.desk.get(Who::Admin, &format!("/api/executions/{execution}")).await;
    assert_eq!(ended["status"], "cancelled");
    assert!(house.ran.all().is_empty());
    browser.go(&house.desk, "/executions?status=cancelled").await;
    assert_eq!(browser.count(&format!("table a[href='/executions/{execution}']")).await, 1);
    browser.go(&house.desk, "/executions?status=succeeded").await;
    assert!(browser.text("main").await.contains("None here."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_doubt_is_settled_in_each_of_the_three_ways() {
    let mut program = Program::start().await;
    let mut calls = Vec::new();
    for (to, delay) in [("done", 600_000), ("failed", 600_000), ("again", 1_000)] {
        calls.push(program.desk.asks("bank.pay", json!({ "to": to, "amount": 5, "delayMs": delay })).await);
    }
    let browser = Browser::logged_in(&program.desk, Who::Admin).await;
    for waiting in &calls {
        program.desk.resolve(Who::Approver, waiting, true).await;
    }
    for waiting in &calls {
        until("it started", async || status(&program, waiting).await == "running").await;
    }
    program.kill();
    program.start_again();
    for waiting in &calls {
        until("it is in doubt", async || status(&program, waiting).await == "in_doubt").await;
    }
    let [done, failed, again] = &calls[..] else { unreachable!() };

    browser.go(&program.desk, "/").await;
    browser.says("#doubts", "bank.pay").await;
    browser.says("[data-count]", "3").await;
    browser.until("it does not say that nothing waits", "document.querySelector('#empty').hidden").await;
    browser.go(&program.desk, &done.execution_page()).await;
    browser.says(".doubt", "It will not be run again unless you say so").await;
    browser.says(".doubt .tree", "“done”").await;
    let value = json!({ "id": 7, "to": "done", "amount": 5, "executionId": done.execution });
    for (field, text) in
        [("id", "7"), ("to", "done"), ("amount", "5"), ("executionId", done.execution.as_str())]
    {
        browser.write(&format!("[data-api$='/settle'] [name='value.{field}']"), text).await;
    }
    browser.click(&way("done")).await;
    browser.says(".stands", "succeeded").await;
    assert_eq!(program.desk.end_of(done).await["value"], value);
    browser.says("[data-count]", "2").await;

    browser.go(&program.desk, &failed.execution_page()).await;
    browser.write("[data-api$='/settle'] [name=reason]", "The bank knows nothing of it.").await;
    browser.click(&way("failed")).await;
    browser.says(".stands", "failed").await;
    assert!(
        program.desk.end_of(failed).await["error"]["message"].as_str().unwrap().contains("knows nothing")
    );

    browser.go(&program.desk, &again.execution_page()).await;
    browser.click_and_agree(&way("retry")).await;
    browser.says(".stands", "succeeded").await;
    let ledger = program.desk.call("bank.ledger", json!({})).await;
    let paid: Vec<&Value> =
        ledger["value"]["transfers"].as_array().unwrap().iter().map(|row| &row["to"]).collect();
    assert_eq!(paid, ["again"], "only what somebody wanted run again has run");
}

/// The button of one way out of a doubt.
fn way(name: &str) -> String {
    format!(".way:has([value={name}]) button")
}

async fn status(program: &Program, waiting: &Waiting) -> String {
    let path = format!("/api/executions/{}", waiting.execution);
    program.desk.get(Who::Admin, &path).await["status"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_made_shown_once_and_revoked() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.go(&house.desk, "/tokens").await;
    browser.write("[name=name]", "night shift").await;
    browser.run("document.querySelector('[name=role]').value = 'approver'", Vec::new()).await;
    browser.click("form[data-api='POST /api/tokens'] button").await;
    browser.until("its secret is shown", "document.querySelector('#secret pre').textContent").await;
    let secret = browser.text("#secret pre").await;
    let whoami = async || {
        let request = house.desk.http.request(Method::GET, format!("{}/api/whoami", house.desk.url));
        request.bearer_auth(&secret).send().await.unwrap()
    };
    let known: Value = whoami().await.json().await.unwrap();
    assert_eq!(known["roles"], json!(["approver"]));
    browser.go(&house.desk, "/tokens").await;
    assert!(!browser.source().await.contains(&secret), "it is shown once");

    let revoke = "tr:has(td:first-child) form[data-sure*='night shift'] button";
    browser.click_and_agree(revoke).await;
    browser.until("it is revoked", &format!("!document.querySelector(\"{revoke}\")")).await;
    assert!(browser.text("main table").await.contains("revoked"));
    assert_eq!(whoami().await.status().as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_is_narrowed_down_verified_and_taken_away_whole() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let other = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.read(&house.desk, &waiting).await;
    browser.press("a").await;
    house.desk.end_of(&waiting).await;

    browser.go(&house.desk, "/audit").await;
    browser.write("[name=execution]", &other.execution).await;
    browser.click("form.filters button").await;
    browser.until("it is narrowed down", "location.search.includes('execution=exec_')").await;
    browser.is_filled().await;
    let of = |waiting: &Waiting| format!("tbody a[href='{}']", waiting.execution_page());
    assert!(browser.count(&of(&other)).await > 0);
    assert_eq!(browser.count(&of(&waiting)).await, 0);

    let folder = browser.download_folder().await;
    browser.go(&house.desk, "/audit").await;
    let recorded = house.desk.recorded().await;
    browser.click("[data-verify]").await;
    browser.says("#chain", &format!("The chain is whole: {recorded} records.")).await;
    browser.click("[data-export]").await;
    browser.says("#chain", &format!("{recorded} records exported.")).await;
    let file = folder.join("countersign-audit.jsonl");
    until("the file is there", async || file.is_file()).await;
    let lines: Vec<Value> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let numbers: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=recorded).collect::<Vec<_>>());
    assert_eq!(house.desk.recorded().await, recorded, "looking is not recorded");
}
