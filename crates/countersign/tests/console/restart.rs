//! Pages that are left, and a server that dies under an open one.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::Browser;
use crate::desk::Who;
use crate::house::House;
use crate::program::Program;

/// A page that waited for a connection of one that was left would wait a minute.
const LESS_THAN_A_MINUTE: Duration = Duration::from_secs(50);

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_outlives_a_server_that_is_killed_and_nothing_is_lost() {
    let mut program = Program::start().await;
    let seen = program.desk.asks("bank.pay", json!({ "to": "seen", "amount": 1 })).await;
    let decided = program.desk.asks("bank.pay", json!({ "to": "decided meanwhile", "amount": 2 })).await;
    let browser = Browser::logged_in(&program.desk, Who::Admin).await;
    browser.has_settled(&seen).await;
    browser.run("window.isTheSamePage = true", Vec::new()).await;

    program.kill();
    browser.until("it says that it is cut off", "!document.querySelector('#offline').hidden").await;
    browser.press("a").await;
    browser
        .until("it does not claim to have decided", "document.querySelector('#why-not').textContent")
        .await;
    program.start_again();
    assert!(program.desk.is_pending(&seen).await);
    // Before the page has found its way back.
    program.desk.resolve(Who::Approver, &decided, false).await;
    let new = program.desk.asks("bank.pay", json!({ "to": "new", "amount": 3 })).await;

    browser.until("it is back", "document.querySelector('#offline').hidden").await;
    browser.until("what is new is there", &format!("document.querySelector('{}')", new.card())).await;
    browser
        .until("what was decided is gone", &format!("!document.querySelector('{}')", decided.card()))
        .await;
    browser.until("it counts right", "document.querySelector('[data-count]').textContent === '2'").await;
    assert_eq!(
        browser.value("window.isTheSamePage").await,
        true,
        "nothing that was typed or unfolded is gone"
    );
    browser.press("a").await;
    assert_eq!(program.desk.end_of(&seen).await["status"], "succeeded", "the login outlives the server too");
    let ledger = program.desk.call("bank.ledger", json!({})).await;
    assert_eq!(ledger["value"]["transfers"].as_array().unwrap().len(), 1, "{ledger}");
}

/// A browser gives a host six connections, and keeps for a minute what pages that were left still listen to.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_were_left_keep_no_connection_from_the_next_and_come_back_fresh() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let begun = Instant::now();
    for _ in 0..3 {
        for page in ["/executions", "/tools", "/sessions", "/audit"] {
            browser.click(&format!("nav a[href='{page}']")).await;
            browser.until("it is there", &format!("location.pathname === '{page}'")).await;
            browser.is_filled().await;
        }
    }
    assert!(begun.elapsed() < LESS_THAN_A_MINUTE, "twelve pages took {:?}", begun.elapsed());
    browser.go(&house.desk, "/").await;
    // A page that is left before it is whole has no place in the browser's history to come back to.
    browser.is_filled().await;
    browser.until("it is whole", "document.readyState === 'complete'").await;
    browser.click("nav a[href='/tools']").await;
    browser.until("it was left", "location.pathname === '/tools'").await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    browser.run("history.back()", Vec::new()).await;
    browser
        .until("what came meanwhile is there", &format!("document.querySelector('{}')", waiting.card()))
        .await;
}
