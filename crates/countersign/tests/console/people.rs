//! How people get into the console, and how they are put out of it again.

use reqwest::Method;
use reqwest::header::COOKIE;
use serde_json::json;

use crate::browser::Browser;
use crate::desk::{Desk, Who};
use crate::house::House;

const SHOWS_THE_LOGIN: &str = "document.body.dataset.page === 'turned-away'";

#[tokio::test(flavor = "multi_thread")]
async fn an_invite_link_lets_an_approver_in_and_what_they_decide_is_recorded_under_their_name() {
    let house = House::open().await;
    let admin = Browser::logged_in(&house.desk, Who::Admin).await;
    admin.go(&house.desk, "/users").await;
    admin.write("[name=name]", "carol").await;
    admin.click("form[data-api='POST /api/users'] button").await;
    admin.says("main table", "carol").await;
    admin.click("tr:has(form[data-sure*='carol']) [data-then=link] button").await;
    admin.until("the link is shown", "document.querySelector('#secret pre').textContent").await;
    let link = admin.text("#secret pre").await;
    assert!(link.starts_with(&format!("{}/login?code=", house.desk.console)), "{link}");

    let carol = Browser::open().await;
    carol.visit(&link).await;
    carol.click("form[action='/login'] button").await;
    carol.until("the inbox is there", "document.body.dataset.page === 'inbox'").await;
    carol.says(".who", "carol (approver)").await;
    let waiting = house.desk.asks("lab.take", json!({ "n": 1 })).await;
    carol.read(&house.desk, &waiting).await;
    carol.press("a").await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
    let decision = house.desk.question(&waiting).await["decision"].clone();
    assert_eq!(
        [&decision["byName"], &decision["channel"], &decision["proof"]],
        ["carol", "console", "login"],
        "{decision}"
    );
    carol.go(&house.desk, &waiting.page()).await;
    carol.says(".decided", "approved by carol").await;

    let late = Browser::open().await;
    late.visit(&link).await;
    late.says("main", "was used already").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_token_logs_a_person_in_and_an_agents_token_is_refused_in_plain_words() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::open().await;
    browser.go(&house.desk, &waiting.page()).await;
    let paste = async |secret: &str| {
        browser.write("form.token [name=token]", secret).await;
        browser.click("form.token button").await;
    };
    paste(house.desk.secret(Who::Agent)).await;
    browser.says("main .warning", "This token is for a program, such as an agent.").await;
    browser.says("main .warning", "a token with the role approver or admin").await;
    paste("cs_0123456789").await;
    browser.says("main .warning", "This token is unknown, expired or revoked.").await;
    assert_eq!(browser.value("localStorage.getItem('csrf')").await, json!(null));

    paste(house.desk.secret(Who::Approver)).await;
    browser.has_settled(&waiting).await;
    assert_eq!(browser.path().await, waiting.page(), "it goes on where one wanted to go");
    browser.says(".who", "bob (approver)").await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
    assert_eq!(house.desk.question(&waiting).await["decision"]["byName"], "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_out_in_one_tab_ends_every_other_and_the_cookie_that_was_copied_before() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.has_settled(&waiting).await;
    let copied = Copied::from(&browser).await;
    assert_eq!(copied.status(&house.desk, Method::GET, "/api/whoami").await, 200, "it was good before");
    let first = browser.new_tab().await;
    browser.go(&house.desk, "/executions").await;
    browser.click("[data-log-out]").await;
    browser.until("it asks for a login", "document.body.dataset.page === 'login'").await;

    // Nobody touched the other tab: its stream ended, and so it knows.
    browser.switch_to(first).await;
    browser.until("the other tab shows the login", SHOWS_THE_LOGIN).await;
    assert!(!browser.source().await.contains("lab.take"), "nothing that it showed is left on it");
    copied.is_worth_nothing(&house, &waiting.elicitation).await;
    assert!(house.desk.is_pending(&waiting).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn disabling_a_user_puts_them_out_of_every_page_at_once() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let (admin, bob) = tokio::join!(
        Browser::logged_in(&house.desk, Who::Admin),
        Browser::logged_in(&house.desk, Who::Approver),
    );
    bob.has_settled(&waiting).await;
    let copied = Copied::from(&bob).await;
    admin.go(&house.desk, "/users").await;
    admin.click_and_agree("form[data-sure*='“bob”'] button").await;
    admin.says("main table", "disabled").await;
    bob.until("bob's page shows the login", SHOWS_THE_LOGIN).await;
    assert!(!bob.source().await.contains("lab.take"), "nothing that it showed is left on it");
    copied.is_worth_nothing(&house, &waiting.elicitation).await;
    assert!(house.desk.is_pending(&waiting).await);
    bob.write("form.token [name=token]", house.desk.secret(Who::Approver)).await;
    bob.click("form.token button").await;
    bob.says("main .warning", "unknown, expired or revoked").await;

    admin.click("tr:has([name=disabled][value=false]) button").await;
    admin.until("bob may come back", "document.querySelector('form[data-sure*=\"“bob”\"]')").await;
    bob.log_in(&house.desk, Who::Approver).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_old_login_decides_nothing_in_the_name_of_the_next() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.take", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Admin).await;
    browser.has_settled(&waiting).await;
    browser.says(".who", "ann").await;
    let old = browser.new_tab().await;
    browser.log_in(&house.desk, Who::Approver).await;
    browser.switch_to(old).await;
    browser.press("a").await;
    browser.says(".who", "bob").await;
    assert!(house.desk.is_pending(&waiting).await, "the page said ann");
    browser.has_settled(&waiting).await;
    browser.press("a").await;
    assert_eq!(house.desk.end_of(&waiting).await["status"], "succeeded");
    assert_eq!(house.desk.question(&waiting).await["decision"]["byName"], "bob");
}

/// Everything that a browser has of its login: the cookie, and the key of its pages.
struct Copied {
    cookie: String,
    key: String,
}

impl Copied {
    async fn from(browser: &Browser) -> Self {
        let key = browser.value("localStorage.getItem('csrf')").await;
        Self { cookie: browser.cookie().await, key: key.as_str().unwrap().to_owned() }
    }

    async fn status(&self, desk: &Desk, method: Method, path: &str) -> u16 {
        let request = desk.http.request(method.clone(), format!("{}{path}", desk.url));
        let request = request.header(COOKIE, &self.cookie).header("x-csrf-token", &self.key);
        let request =
            if method == Method::POST { request.json(&json!({ "approved": true })) } else { request };
        request.send().await.unwrap().status().as_u16()
    }

    async fn is_worth_nothing(&self, house: &House, elicitation: &str) {
        let resolve = format!("/api/elicitation/{elicitation}/resolve");
        assert_eq!(self.status(&house.desk, Method::POST, &resolve).await, 401);
        for path in ["/", "/executions", "/api/whoami", "/api/elicitation", "/api/events"] {
            assert_eq!(self.status(&house.desk, Method::GET, path).await, 401, "{path}");
        }
    }
}
