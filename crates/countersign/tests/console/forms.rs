//! Forms that tools ask people to fill in.

use serde_json::json;

use crate::browser::Browser;
use crate::desk::Who;
use crate::house::House;

/// A date's field takes keys in the order of the reader's country; its value has one form.
const BORN: &str = "document.querySelector('[name=\"data.born\"]').value = '1990-01-31'";

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_checked_in_the_browser_and_reaches_the_tool_as_typed_values() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.survey", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.read(&house.desk, &waiting).await;
    for label in ["Your name", "As on the badge.", "Mail", "Send me news", "Green", "wed"] {
        assert!(browser.text("#decide").await.contains(label), "{label}");
    }
    browser.write("[name='data.name']", "Ann").await;
    browser.write("[name='data.mail']", "no mail address").await;
    browser.write("[name='data.visits']", "9").await;
    browser.click("#decide [value=call]").await;
    let wrong = browser
        .value("[...document.querySelectorAll('#decide :invalid:not(fieldset)')].map((field) => field.name)")
        .await;
    assert_eq!(wrong, json!(["data.mail", "data.visits"]), "the browser says no by itself");
    assert!(house.desk.is_pending(&waiting).await);

    browser.write("[name='data.mail']", "ann@example.org").await;
    browser.write("[name='data.visits']", "3").await;
    browser.click("[name='data.days'][value='\"mon\"']").await;
    browser.click("[name='data.days'][value='\"wed\"']").await;
    browser.run(BORN, Vec::new()).await;
    browser.click("#decide [value=call]").await;
    let result = house.desk.end_of(&waiting).await;
    let given = json!({
        "name": "Ann", "mail": "ann@example.org", "score": 7.5, "visits": 3, "news": true, "colour": "g",
        "days": ["mon", "wed"], "born": "1990-01-31",
    });
    assert_eq!(result["value"]["given"], given, "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_browser_lets_through_the_server_does_not_and_says_where() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.survey", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.read(&house.desk, &waiting).await;
    let careless = "for (const name of ['data.mail', 'data.visits']) {
        const field = document.querySelector(`[name='${name}']`);
        if (field.type === 'email') field.type = 'text';
        field.removeAttribute('max');
    }";
    browser.run(careless, Vec::new()).await;
    browser.write("[name='data.name']", "Ann").await;
    browser.write("[name='data.mail']", "no mail address").await;
    browser.write("[name='data.visits']", "9").await;
    browser.click("#decide [value=call]").await;
    browser.says("[data-field='data.visits'] .violation", "9").await;
    browser.says("[data-field='data.mail'] .violation", "email").await;
    assert_eq!(browser.text("[data-field='data.name'] .violation").await, "");
    assert_eq!(
        browser.value("document.querySelector('[name=\"data.name\"]').value").await,
        "Ann",
        "nothing typed is lost"
    );
    assert!(house.desk.is_pending(&waiting).await);

    browser.write("[name='data.mail']", "ann@example.org").await;
    browser.write("[name='data.visits']", "2").await;
    browser.click("#decide [value=call]").await;
    assert_eq!(house.desk.end_of(&waiting).await["value"]["given"]["visits"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_denied_is_no_answer() {
    let house = House::open().await;
    let waiting = house.desk.asks("lab.survey", json!({})).await;
    let browser = Browser::logged_in(&house.desk, Who::Approver).await;
    browser.read(&house.desk, &waiting).await;
    browser.click("#decide [value=deny]").await;
    assert_eq!(house.desk.end_of(&waiting).await["value"], json!({ "given": null }));
}
