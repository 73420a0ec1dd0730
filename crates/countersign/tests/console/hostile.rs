//! Text that means harm: it is shown as the letters it is, whole, and does nothing.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::desk::Who;
use crate::house::House;
use crate::lab::DISGUISE;
use crate::program::Program;

/// What agents write, and what a person reads.
pub(crate) const CORPUS: [(&str, &str); 17] = [
    same("<img src=x class=planted onerror=\"window.planted=1\">"),
    same("<script class=planted>window.planted=2</script>"),
    same(
        "</pre></article></main><iframe class=planted srcdoc=\"<script>parent.planted=3</script>\"></iframe>",
    ),
    same("<svg class=planted onload=window.planted=4>"),
    same("<a class=planted href=\"javascript:window.planted=5\">Approve</a>"),
    same("\"><button class=planted autofocus onfocus=window.planted=6>"),
    same("<style class=planted>#decide { display: none }</style>"),
    same("<form class=planted id=decide action=https://evil.example>"),
    same("&lt;b class=planted&gt;"),
    same("[Approve](javascript:window.planted=7) **bold** # heading ![x](https://evil.example/x.png)"),
    same("javascript:window.planted=8"),
    ("photo_\u{202e}gpj.exe \u{2066}a\u{2069}", "photo_⟦U+202E⟧gpj.exe ⟦U+2066⟧a⟦U+2069⟧"),
    ("\u{1b}[2J\u{1b}[31mred\u{8}", "⟦U+001B⟧[2J⟦U+001B⟧[31mred⟦U+0008⟧"),
    ("adm\u{200b}in\u{feff}", "adm⟦U+200B⟧in⟦U+FEFF⟧"),
    ("hidden \u{e0041}\u{e0042}", "hidden ⟦U+E0041⟧⟦U+E0042⟧"),
    ("forged ⟦U+202E⟧", "forged ⟦U+27E6⟧U+202E⟧"),
    ("ok                    rm -rf /", "ok⟦20 spaces⟧rm -rf /"),
];

const fn same(text: &'static str) -> (&'static str, &'static str) {
    (text, text)
}

/// What of the corpus became more than letters.
pub(crate) const HARM: &str = "[
    ...document.querySelectorAll('.planted, iframe, img, main style, main script, [onerror], [onload], [onfocus], [action^=https], a[href^=\"javascript:\" i]'),
].map((found) => found.outerHTML).concat(window.planted ?? [])";

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_as_the_letters_it_is_on_every_page() {
    let house = House::open().await;
    let raws: Vec<&str> = CORPUS.iter().map(|(raw, _)| *raw).collect();
    let mut args: serde_json::Map<String, Value> =
        raws.iter().map(|raw| ((*raw).to_owned(), json!([raw, { *raw: raw }]))).collect();
    args.insert("says".into(), json!(raws.join("\n")));
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;

    let waiting = house.desk.asks("lab.take", Value::Object(args)).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", waiting.card())).await;
    shows_the_corpus(&browser, &waiting.card()).await;
    browser.read(&house.desk, &waiting).await;
    for place in ["#request blockquote", "#request .tree", "#request details.raw"] {
        shows_the_corpus(&browser, place).await;
    }
    let warning = browser.text("#request .warning").await;
    for word in ["control characters", "reorder text", "invisible", "blanks"] {
        assert!(warning.contains(word), "{warning}");
    }
    let decision = json!({ "approved": true, "comment": raws.join("\n") });
    house
        .desk
        .post(Who::Approver, &format!("/api/elicitation/{}/resolve", waiting.elicitation), &decision)
        .await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
    for page in [waiting.page(), waiting.execution_page()] {
        browser.go(&house.desk, &page).await;
        shows_the_corpus(&browser, "main").await;
    }
    for page in ["/", "/executions", "/sessions", "/audit"] {
        browser.go(&house.desk, page).await;
        assert_eq!(browser.value(HARM).await, json!([]), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_tool_is_shown_as_the_letters_it_is() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let waiting = house.desk.asks("lab.disguised", json!({ "what": "x" })).await;
    let (letters, _) = DISGUISE.split_once('\u{202e}').unwrap();
    let shown = format!("{letters}⟦U+202E⟧");
    for page in [
        waiting.page(),
        "/tools/lab.disguised".to_owned(),
        "/tools?query=%3Cimg%20class%3Dplanted%3E".to_owned(),
        "/tools".to_owned(),
    ] {
        browser.go(&house.desk, &page).await;
        assert_eq!(browser.value(HARM).await, json!([]), "{page}");
        assert!(page.contains("query=") || browser.text("main").await.contains(&shown), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_script_and_what_it_logs_are_shown_as_the_letters_they_are() {
    let program = Program::start().await;
    let browser = Browser::logged_in(&program.desk, Who::Admin).await;
    let lines: String = CORPUS.iter().map(|(raw, _)| format!("console.log({});\n", json!(raw))).collect();
    let script = format!(
        "{lines}// <img class=planted src=x>\nreturn await tools.bank.pay({{ to: '<b class=planted>', amount: 1 }});"
    );
    let waiting = program.desk.runs(&script).await;
    browser.read(&program.desk, &waiting).await;
    let shown = browser.text("#request").await;
    assert!(shown.contains("// <img class=planted src=x>") && shown.contains("<b class=planted>"), "{shown}");
    assert_eq!(browser.value(HARM).await, json!([]));
    browser.press("a").await;
    assert_eq!(program.desk.end_of(&waiting).await["status"], "succeeded");
    browser.go(&program.desk, &waiting.execution_page()).await;
    shows_the_corpus(&browser, ".logs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_of_text_and_ten_thousand_keys_are_shown_whole() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let text = format!("{}THE END", "All work and no play. ".repeat(47_000));
    assert!(text.len() > 1_030_000);
    let long = house.desk.asks("lab.take", json!({ "text": text })).await;
    browser.read(&house.desk, &long).await;
    assert_eq!(browser.text("#request pre.long").await, text);

    let many: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("key {n}"), json!(n))).collect();
    let wide = house.desk.asks("lab.take", Value::Object(many)).await;
    browser.read(&house.desk, &wide).await;
    assert_eq!(browser.count("#request .tree > ul > li").await, 10_000);
    assert!(browser.text("#request .tree").await.contains("key 9999"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_schema_calls_a_secret_is_in_no_page() {
    let house = House::open().await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    let args = json!({ "user": "ann", "password": "hunter2-hunter2", "pins": ["pin-4711", "pin-0815"] });
    let waiting = house.desk.asks("lab.unlock", args.clone()).await;
    browser.until("the card is there", &format!("document.querySelector('{}')", waiting.card())).await;
    tells_no_secret(&browser, "the inbox that was open").await;
    browser.read(&house.desk, &waiting).await;
    let shown = browser.text("#request").await;
    assert!(shown.contains("ann") && shown.contains("hidden: a secret"), "{shown}");
    tells_no_secret(&browser, "the request").await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
    assert_eq!(house.ran.all(), [args], "what runs is what was sent, secrets and all");
    let again = house
        .desk
        .asks("lab.unlock", json!({ "user": "bob", "password": "hunter2-hunter2", "pins": [] }))
        .await;
    for page in [
        "/".to_owned(),
        again.page(),
        waiting.page(),
        waiting.execution_page(),
        "/executions".to_owned(),
        "/audit".to_owned(),
    ] {
        browser.go(&house.desk, &page).await;
        tells_no_secret(&browser, &page).await;
    }
}

pub(crate) async fn shows_the_corpus(browser: &Browser, place: &str) {
    let text = browser.text(place).await;
    for (raw, shown) in CORPUS {
        // JSON has escapes of its own for quotes and control characters.
        let as_json = json!(raw).to_string();
        let is_there = text.contains(shown) || text.contains(&as_json[1..as_json.len() - 1]);
        assert!(is_there, "{place} does not show {shown}: {text}");
    }
    assert_eq!(browser.value(HARM).await, json!([]), "{place}");
}

async fn tells_no_secret(browser: &Browser, page: &str) {
    let source = browser.source().await;
    for secret in ["hunter2", "pin-4711", "pin-0815"] {
        assert!(!source.contains(secret), "{page} tells {secret}");
    }
}
