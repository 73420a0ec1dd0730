//! What keys and buttons may not do: decide what nobody meant, or what nobody has read.

use serde_json::json;

use crate::browser::{Browser, ENTER};
use crate::desk::{Waiting, Who};
use crate::house::House;

/// Presses a key at the very moment at which a request gets on the screen, which no hand outside the browser can.
const EAGER: &str = "
    new MutationObserver((_, observer) => {
        if (!document.querySelector('#request')) return;
        observer.disconnect();
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }));
        window.wasEager = true;
    }).observe(document.querySelector('#pane'), { childList: true });";

#[tokio::test(flavor = "multi_thread")]
async fn keys_decide_nothing_while_somebody_types() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.erase", json!({ "what": "x" })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.read(&house.desk, &waiting).await;
    browser.click("#decide [name=reason]").await;
    browser.press("as said").await;
    assert_eq!(browser.value("document.querySelector('#decide [name=reason]').value").await, "as said");
    assert!(house.desk.is_pending(&waiting).await);
    assert_eq!(browser.path().await, waiting.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_as_a_request_opens_decides_nothing() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.run(EAGER, Vec::new()).await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", waiting.card())).await;
    browser.click(&format!("{} a", waiting.card())).await;
    browser.until("the key was pressed", "window.wasEager").await;
    browser.says("#said", "only just opened").await;
    assert!(house.desk.is_pending(&waiting).await);
    browser.has_settled(&waiting).await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded", "a moment later it counts");
}

/// Clicks the first button of a request at the very moment at which it gets on the screen.
const IMPATIENT: &str = "
    const before = document.querySelector('#request').dataset.id;
    new MutationObserver((_, observer) => {
        const now = document.querySelector('#request');
        if (!now || now.dataset.id === before) return;
        observer.disconnect();
        now.querySelector('#decide [value=call]').click();
        window.wasImpatient = true;
    }).observe(document.querySelector('#pane'), { childList: true });";

#[tokio::test(flavor = "multi_thread")]
async fn a_second_click_on_one_request_does_not_approve_the_next_one() {
    let house = House::open().await;
    let first = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    let second = house.desk.asks("lab.take", json!({ "n": 2 })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&first).await;
    browser.run(IMPATIENT, Vec::new()).await;
    browser.click("#decide [value=call]").await;
    assert_eq!(house.desk.end_of(&first).await["status"], "succeeded");
    browser.until("the next one opened and was clicked", "window.wasImpatient").await;
    browser.says("#said", "only just opened").await;
    assert!(house.desk.is_pending(&second).await);
    browser.has_settled(&second).await;
    browser.click("#decide [value=call]").await;
    assert_eq!(house.desk.end_of(&second).await["status"], "succeeded", "a moment later it counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_decides_opens_nothing_under_a_readers_hands() {
    let house = House::open().await;
    let first = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    let second = house.desk.asks("lab.take", json!({ "n": 2 })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&first).await;
    browser.press("d").await;
    browser.press("not as").await;
    house.desk.resolve(Who::Approver, &first, false).await;
    browser.says("#request .decided", "denied by bob").await;
    // The reader types on; by now another request could have been put there.
    let card = format!("!document.querySelector('{}')", first.card());
    browser.until("the card is gone", &card).await;
    browser.press(" a bad idea as such").await;
    browser.says("#request .decided", "denied by bob").await;
    assert!(house.desk.is_pending(&second).await, "the letters decided nothing");
    browser.press("j").await;
    browser.has_settled(&second).await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&second).await["status"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_and_enter_deny_also_what_is_long_and_what_is_a_form() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let long = house.desk.asks("lab.take", json!({ "text": "x".repeat(70_000) })).await;
    let form = house.desk.asks("lab.survey", json!({})).await;
    for waiting in [long, form] {
        browser.read(&house.desk, &waiting).await;
        browser.press("d").await;
        browser.press("No.").await;
        browser.press(ENTER).await;
        let until = async || !house.desk.is_pending(&waiting).await;
        crate::desk::until("it is denied", until).await;
        assert_eq!(house.desk.question(&waiting).await["decision"]["outcome"], "denied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_tool_that_asks_about_another_is_shown_as_what_it_is() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.borrow", json!({ "what": "the keys" })).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.read(&house.desk, &waiting).await;
    assert_eq!(browser.text("#request h1").await, "lab.borrow", "a yes lets this one go on");
    let shown = browser.text("#request").await;
    for part in [
        "lab.borrow has started and needs your approval to continue",
        "about lab.survey",
        "look",
        "Arguments it runs with",
        "the keys",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("as they will run"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_decide_nothing_behind_the_help() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&waiting).await;
    browser.press("?").await;
    browser.until("the help is open", "document.querySelector('#keys').open").await;
    browser.run("document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true }))", Vec::new()).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(house.desk.is_pending(&waiting).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_request_is_approved_by_neither_button_nor_key_before_its_end_was_seen() {
    let house = House::open().await;
    let lines: Vec<String> =
        (0..1_500).map(|n| format!("line {n} of a text that goes on for a while")).collect();
    let args = json!({ "text": lines.join("\n"), "list": (0..200).collect::<Vec<_>>() });
    assert!(args.to_string().len() > 64 * 1024);
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;

    let alone = house.desk.asks("lab.take", args.clone()).await;
    browser.read(&house.desk, &alone).await;
    cannot_be_approved(&browser, &house, &alone).await;
    browser.run("document.querySelector('.tree details').open = false", Vec::new()).await;
    browser.run("scrollTo(0, document.body.scrollHeight)", Vec::new()).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    cannot_be_approved(&browser, &house, &alone).await;
    browser.run("scrollTo(0, 0); document.querySelector('.tree details').open = true", Vec::new()).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    cannot_be_approved(&browser, &house, &alone).await;
    scroll_to_the_end(&browser, "document.scrollingElement").await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&alone).await["status"], "succeeded");

    browser.go(&house.desk, "/").await;
    let beside = house.desk.asks("lab.take", args).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", beside.card())).await;
    browser.click(&format!("{} a", beside.card())).await;
    browser.has_settled(&beside).await;
    cannot_be_approved(&browser, &house, &beside).await;
    scroll_to_the_end(&browser, "document.querySelector('#pane')").await;
    browser.click("#decide [value=call]").await;
    assert_eq!(house.desk.end_of(&beside).await["status"], "succeeded");
    assert_eq!(house.ran.all().len(), 2);
}

async fn cannot_be_approved(browser: &Browser, house: &House, waiting: &Waiting) {
    assert_eq!(browser.value("document.querySelector('#decide [value=call]').disabled").await, true);
    browser.press("a").await;
    browser.says("#said", "to their end first").await;
    browser.run("document.querySelector('#said').textContent = ''", Vec::new()).await;
    assert!(house.desk.is_pending(waiting).await);
}

/// What is below only gets its height as it comes near, so that one jump may not reach the end.
async fn scroll_to_the_end(browser: &Browser, scroller: &str) {
    let there = format!(
        "({scroller}.scrollTop = {scroller}.scrollHeight, !document.querySelector('#decide [value=call]').disabled)"
    );
    browser.until("the end was seen", &there).await;
}
