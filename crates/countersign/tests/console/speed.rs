//! How fast the console is in a browser, and how heavy. Times are printed, not asserted: this is a test's build on whatever
//! machine it runs on.

use serde_json::json;
use tokio::task::JoinSet;

use crate::browser::Browser;
use crate::desk::{Waiting, Who};
use crate::house::House;

/// How many wait in the inbox whose first paint is measured.
const PENDING: usize = 1_000;
/// How many new ones are timed, one after another.
const NEW: usize = 20;
const LOADS: usize = 5;
/// The most that the inbox may weigh, uncompressed: its pages, its style and its script.
const MAX_BYTES: u64 = 60_000;
/// Notes when each card is in the page, and when it was drawn.
const WATCH: &str = "
    window.seen = {};
    new MutationObserver((changes) => {
        const now = Date.now();
        for (const { addedNodes } of changes) for (const { dataset } of addedNodes) {
            const times = (window.seen[dataset?.id] = [now]);
            requestAnimationFrame(() => setTimeout(() => times.push(Date.now())));
        }
    }).observe(document.querySelector('#cards'), { childList: true });";
/// Notes when the first cards were drawn. The first paint is no measure: it is of a page that says that it loads.
const FIRST_CARDS: &str = "
    new MutationObserver((_, observer) => {
        if (!document.querySelector('.card')) return;
        observer.disconnect();
        requestAnimationFrame(() => setTimeout(() => (window.drawnAt = performance.now())));
    }).observe(document, { childList: true, subtree: true });";
const WEIGHT: &str = "[
    ...performance.getEntriesByType('navigation'),
    // The page that is fetched with the key, too.
    ...performance.getEntriesByType('resource').filter(({ name }) => /console\\.(css|js)/.test(name) || name === location.href),
].map(({ name, decodedBodySize }) => [new URL(name).pathname, decodedBodySize])";

#[tokio::test(flavor = "multi_thread")]
async fn how_fast_it_is_is_measured_and_printed() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let (mut in_page, mut drawn) = (Vec::new(), Vec::new());
    browser.run(WATCH, Vec::new()).await;
    for n in 0..NEW {
        let waiting = house.desk.asks("lab.take", json!({ "n": n })).await;
        let [there, painted] = times(&browser, &waiting).await;
        let asked = format!("Date.parse({})", house.desk.question(&waiting).await["askedAt"]);
        let asked = browser.value(&asked).await.as_u64().unwrap();
        in_page.push(there - asked);
        drawn.push(painted - asked);
    }
    println!("from recorded to in the page: {}", spread(&mut in_page));
    println!("from recorded to drawn: {}", spread(&mut drawn));

    browser.go(&house.desk, "/tools").await;
    let watch = json!({ "source": FIRST_CARDS });
    browser.command("Page.addScriptToEvaluateOnNewDocument", &watch).await;
    fill(&house).await;
    let mut paints = Vec::new();
    for _ in 0..LOADS {
        browser.go(&house.desk, "/").await;
        browser.until("its cards are drawn", "window.drawnAt").await;
        paints.push(browser.value("window.drawnAt").await.as_f64().unwrap().round() as u64);
    }
    println!("from opening the inbox to its cards drawn, with {PENDING} pending: {}", spread(&mut paints));
    let weight = browser.value(WEIGHT).await;
    let bytes: u64 = weight.as_array().unwrap().iter().map(|one| one[1].as_u64().unwrap()).sum();
    println!("page weight, uncompressed: {bytes} bytes of {weight}");
    assert!(bytes <= MAX_BYTES, "{bytes} bytes of {weight}");
    assert!(browser.text("[data-count]").await.contains("1000"), "what was measured is what was meant");
}

async fn times(browser: &Browser, waiting: &Waiting) -> [u64; 2] {
    let seen = format!("window.seen['{}']", waiting.elicitation);
    browser.until("it is drawn", &format!("{seen}?.length === 2")).await;
    let times = browser.value(&seen).await;
    [0, 1].map(|n: usize| times[n].as_u64().unwrap())
}

/// Calls until so many wait.
async fn fill(house: &House) {
    let mut calls = JoinSet::new();
    for n in NEW..PENDING {
        let desk = house.desk.clone();
        calls.spawn(async move {
            desk.asks("lab.take", json!({ "n": n, "text": "about as long as a call is" })).await
        });
        if calls.len() >= 16 {
            calls.join_next().await;
        }
    }
    calls.join_all().await;
}

fn spread(values: &mut [u64]) -> String {
    values.sort_unstable();
    let (least, most) = (values[0], values[values.len() - 1]);
    format!("median {} ms, {least} to {most} ms over {}", values[values.len() / 2], values.len())
}
