//! What arrives, how it is decided, and who is told.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::browser::{Browser, ENTER, KeyEvent, SETTLED};
use crate::desk::{Waiting, Who, until};
use crate::house::House;

/// Enter and Escape, as WebDriver writes them.
const ESCAPE: &str = "\u{e00c}";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_appears_on_the_open_page_by_itself_and_nothing_jumps() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    assert!(browser.text("#empty").await.contains("No pending requests"));
    assert_eq!(browser.value("document.title").await, "Inbox · Countersign");

    let first = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", first.card())).await;
    browser.until("nothing says that nothing waits", "document.querySelector('#empty').hidden").await;
    assert_eq!(browser.value("document.title").await, "(1) Inbox · Countersign");
    let card = browser.text(&first.card()).await;
    assert!(card.contains("lab.take") && card.contains("Take 1 things?"), "{card}");

    let top = format!("document.querySelector('{}').getBoundingClientRect().top", first.card());
    let before = browser.value(&top).await;
    let second = house.desk.asks("lab.take", json!({ "n": 1, "m": 2 })).await;
    browser
        .until("so is the next", &format!("document.querySelector('{} + {}')", first.card(), second.card()))
        .await;
    assert_eq!(browser.value(&top).await, before, "what one was about to click on stays where it is");
    browser.until("both are counted", "document.querySelector('[data-count]').textContent === '2'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_approves_what_is_open_and_exactly_that_runs_once() {
    let house = House::open().await;
    let args = json!({ "name": "ledger", "deep": { "rows": [1, 2, { "x": null }] } });
    let waiting = house.desk.asks("lab.take", args.clone()).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&waiting).await;
    for part in ["name", "ledger", "deep", "rows", "null"] {
        assert!(browser.text("#request .tree").await.contains(part), "{part}");
    }
    browser.press("a").await;
    let result = house.desk.end_of(&waiting).await;
    assert_eq!(result["status"], "succeeded", "{result}");
    assert_eq!(house.ran.all(), [args]);
    let decision = &house.desk.question(&waiting).await["decision"];
    assert_eq!((&decision["outcome"], &decision["channel"]), (&json!("approved"), &json!("console")));
    browser.until("the card leaves", &format!("!document.querySelector('{}')", waiting.card())).await;
    browser.until("the inbox is empty", "!document.querySelector('#empty').hidden").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_with_its_reason_reaches_the_caller() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.has_settled(&waiting).await;
    browser.press("d").await;
    browser.until("the reason is asked for", "document.activeElement.name === 'reason'").await;
    assert!(house.desk.is_pending(&waiting).await, "the key alone decides nothing");
    browser.press("Not on a Friday.").await;
    browser.press(ENTER).await;
    let result = house.desk.end_of(&waiting).await;
    assert_eq!(
        (&result["status"], &result["error"]["code"]),
        (&json!("failed"), &json!("denied")),
        "{result}"
    );
    assert!(result["error"]["message"].as_str().unwrap().contains("Not on a Friday."), "{result}");
    assert!(house.ran.all().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_for_the_session_counts_until_it_is_revoked() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let first = house.desk.asks("lab.erase", json!({ "what": "one" })).await;
    browser.read(&house.desk, &first).await;
    let covers = "Approval covers: this call and later calls of lab.erase in this session, with any arguments, for 12 h or until revoked.";
    browser.says(".covers", covers).await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&first).await["status"], "succeeded");
    assert_eq!(
        house.desk.call("lab.erase", json!({ "what": "two" })).await["status"],
        "succeeded",
        "it does not ask again"
    );

    let session = house.desk.question(&first).await["sessionId"].as_str().unwrap().to_owned();
    browser.go(&house.desk, "/sessions").await;
    assert!(browser.text("main").await.contains(&session));
    browser.go(&house.desk, &format!("/sessions/{session}")).await;
    assert!(browser.text(".grants").await.contains("lab.erase"));
    browser.click(".grants form button").await;
    browser.says("main", "Every destructive call of this session asks").await;
    let third = house.desk.asks("lab.erase", json!({ "what": "three" })).await;
    assert!(house.desk.is_pending(&third).await);

    let each_time = house.desk.asks("lab.take", json!({})).await;
    browser.read(&house.desk, &each_time).await;
    browser.press("s").await;
    browser.says("#said", "needs approval for each call").await;
    assert!(house.desk.is_pending(&each_time).await, "a tool that asks each time is not approved for more");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_count_for_the_session_can_be_approved_for_this_call_only() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    let first = house.desk.asks("lab.erase", json!({ "what": "one" })).await;
    browser.read(&house.desk, &first).await;
    browser.press("o").await;
    assert_eq!(house.desk.end_of(&first).await["status"], "succeeded");
    let second = house.desk.asks("lab.erase", json!({ "what": "two" })).await;
    browser.read(&house.desk, &second).await;
    browser.click("#decide [value=call]").await;
    assert_eq!(house.desk.end_of(&second).await["status"], "succeeded");
    house.desk.asks("lab.erase", json!({ "what": "three" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_held_down_decides_one_request_at_most() {
    let house = House::open().await;
    let mut all = Vec::new();
    for n in 0..3 {
        all.push(house.desk.asks("lab.take", json!({ "n": n })).await);
    }
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.has_settled(&all[0]).await;
    browser.hold("a", KeyEvent::Down).await;
    assert_eq!(house.desk.end_of(&all[0]).await["status"], "succeeded");
    let next = &all[1].elicitation;
    let is_open = format!("document.querySelector('#request')?.dataset.id === '{next}'");
    while browser.value(&is_open).await != json!(true) {
        browser.hold("a", KeyEvent::Repeat).await;
    }
    // Longer than the next request must be open before a key decides it.
    let opened = Instant::now();
    while opened.elapsed() < 2 * SETTLED {
        browser.hold("a", KeyEvent::Repeat).await;
    }
    assert!(house.desk.is_pending(&all[1]).await && house.desk.is_pending(&all[2]).await);
    browser.hold("a", KeyEvent::Up).await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&all[1]).await["status"], "succeeded", "pressed anew it counts");
    assert!(house.desk.is_pending(&all[2]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_for_these_arguments_only_covers_only_those_and_so_many_calls_as_it_says() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    let first = house.desk.asks("lab.erase", json!({ "what": "one" })).await;
    browser.read(&house.desk, &first).await;
    browser.says(".covers", "Approval covers: this call and later calls of lab.erase in this session").await;
    browser.press("s").await;
    browser.until("s leads to how far it goes", "document.activeElement.name === 'scope'").await;
    browser.click("[name=scope] [value=same]").await;
    browser.write("[name=uses]", "0").await;
    browser.click("#decide [value=session]").await;
    browser.run("document.activeElement.blur()", Vec::new()).await;
    browser.press("a").await;
    assert!(house.desk.is_pending(&first).await, "neither button nor key sends a number that is none");
    browser.write("[name=uses]", "2").await;
    browser.press(ENTER).await;
    assert!(house.desk.is_pending(&first).await, "Enter in a field is no approval");
    browser.click("#decide [value=session]").await;
    assert_eq!(house.desk.end_of(&first).await["status"], "succeeded");

    let other = house.desk.asks("lab.erase", json!({ "what": "two" })).await;
    assert!(house.desk.is_pending(&other).await, "other arguments ask");
    let session = house.desk.question(&first).await["sessionId"].as_str().unwrap().to_owned();
    browser.go(&house.desk, &format!("/sessions/{session}")).await;
    browser.says(".grants", "these arguments only").await;
    browser.says(".grants .tree", "“one”").await;
    browser.says(".grants", "2 uses left").await;
    for left in 0..2 {
        let again = house.desk.call("lab.erase", json!({ "what": "one" })).await;
        assert_eq!(again["status"], "succeeded", "{left}: {again}");
    }
    house.desk.asks("lab.erase", json!({ "what": "one" })).await;
    let ran: Vec<_> = house.ran.all().iter().map(|args| args["what"].clone()).collect();
    assert_eq!(ran, ["one", "one", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_move_through_the_list_open_and_come_back() {
    let house = House::open().await;
    let mut all = Vec::new();
    for n in 0..3 {
        all.push(house.desk.asks("lab.take", json!({ "n": n })).await);
    }
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let is_open = async |waiting: &Waiting| {
        let (card, id) = (waiting.card(), &waiting.elicitation);
        let shown = format!("document.querySelector('#request')?.dataset.id === '{id}'");
        browser
            .until("it is open", &format!("document.querySelector('{card}[aria-current]') && {shown}"))
            .await;
    };
    is_open(&all[0]).await;
    browser.press("j").await;
    is_open(&all[1]).await;
    browser.press("jj").await;
    is_open(&all[2]).await;
    browser.press("k").await;
    is_open(&all[1]).await;
    browser.press("?").await;
    browser.until("the keys are shown", "document.querySelector('#keys').open").await;
    browser.press("a").await;
    browser.press(ESCAPE).await;
    browser.until("they are gone", "!document.querySelector('#keys').open").await;
    browser.press(ENTER).await;
    browser.until("its own page is open", &format!("location.pathname === '{}'", all[1].page())).await;
    browser.is_filled().await;
    browser.press(ESCAPE).await;
    browser.until("the inbox is back", "location.pathname === '/'").await;
    for waiting in &all {
        assert!(house.desk.is_pending(waiting).await, "moving about decides nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_elsewhere_says_by_whom_and_leaves() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&waiting).await;
    house.desk.resolve(Who::Approver, &waiting, false).await;
    browser.says(&waiting.card(), "denied by bob through rest").await;
    browser.says("#request .decided", "denied by bob").await;
    assert_eq!(browser.count("#decide").await, 0, "there is nothing left to decide");
    browser.until("the card leaves", &format!("!document.querySelector('{}')", waiting.card())).await;
    assert_eq!(browser.value("document.title").await, "Inbox · Countersign");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_expires_under_its_reader_says_so_and_leaves() {
    let house = House::expiring_after(Duration::from_secs(3)).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", waiting.card())).await;
    browser
        .until(
            "it counts down",
            &format!("/expires in [0-3] s/.test(document.querySelector('{}').textContent)", waiting.card()),
        )
        .await;
    browser.says(&waiting.card(), "expired").await;
    browser.until("the card leaves", &format!("!document.querySelector('{}')", waiting.card())).await;
    let result = house.desk.end_of(&waiting).await;
    assert_eq!(result["error"]["code"], "expired", "{result}");
    assert!(house.ran.all().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_people_deciding_at_once_one_wins_and_the_other_is_told_by_whom() {
    let house = House::open().await;
    let (ann, bob) = tokio::join!(
        Browser::logged_in(&house.desk, Who::Admin),
        Browser::logged_in(&house.desk, Who::Approver),
    );
    for round in 0..3 {
        let waiting = house.desk.asks("lab.take", json!({ "round": round })).await;
        tokio::join!(ann.read(&house.desk, &waiting), bob.read(&house.desk, &waiting));
        tokio::join!(ann.press("a"), bob.press("a"));
        assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
        let decision = house.desk.question(&waiting).await["decision"].clone();
        let winner = decision["byName"].as_str().unwrap();
        assert!(["ann", "bob"].contains(&winner), "{decision}");
        let loser = if winner == "ann" { &bob } else { &ann };
        loser.says("main", &format!("approved by {winner} through console")).await;
    }
    until("each ran once", async || house.ran.all().len() == 3).await;
}
