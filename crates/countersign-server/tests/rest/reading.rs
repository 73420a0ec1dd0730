//! R15: looking changes nothing. Every GET and every HEAD leaves the store as it was.

use countersign_kernel::ports::{ExecutionFilter, Page};
use reqwest::Method;

use crate::house::{House, Waiting, Who};
use crate::roles::requests;

/// Everything there is, as text: executions and their journals, questions, tokens, grants, and the audit.
async fn everything(house: &House) -> String {
    let gateway = &house.gateway;
    let executions = gateway.executions(ExecutionFilter::default(), Page::first(1_000)).await.unwrap().items;
    let mut all = format!("{executions:?}");
    for row in &executions {
        all.push_str(&format!("{:?}", gateway.journal(row.id).await.unwrap()));
        all.push_str(&format!("{:?}", gateway.grants(&row.session).await.unwrap()));
    }
    let all_questions = countersign_kernel::ports::ElicitationFilter::default();
    all.push_str(&format!(
        "{:?}",
        gateway.elicitations(all_questions, Page::first(1_000)).await.unwrap().items
    ));
    all.push_str(&format!("{:?}", gateway.tokens().await.unwrap()));
    all.push_str(&format!("{:?}", gateway.standing().await.unwrap()));
    all.push_str(&format!("{:?}", gateway.audit(0, 10_000).await.unwrap()));
    all
}

fn address(path: &str, waiting: &Waiting) -> String {
    let id = if path.contains("elicitation") { &waiting.elicitation } else { &waiting.execution };
    let id = if path.contains("sessions") { "ses_test" } else { id };
    path.replace("{id}", id).replace("{path}", "lab.destroy")
}

/// Looks at everything with every method that only looks, and adds what a hasty client or a scanner might.
async fn look_around(house: &House, who: Who, waiting: &Waiting) {
    for (method, path, _) in requests() {
        if method != Method::GET {
            continue;
        }
        let plain = address(path, waiting);
        for address in [
            plain.clone(),
            format!("{plain}?approved=true&waitMs=1&status=approved&_method=POST&action=approve"),
        ] {
            for method in [Method::GET, Method::HEAD] {
                let request = house.request(who, method, &address);
                let request = request.header("x-http-method-override", "POST").header("purpose", "prefetch");
                let response = request.send().await.unwrap();
                assert_ne!(response.status(), 500, "{address}");
            }
        }
    }
}

#[tokio::test]
async fn no_get_and_no_head_changes_anything_whoever_sends_it() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let before = everything(&house).await;
    for who in
        [Who::Nobody, Who::Garbage, Who::Agent, Who::OtherAgent, Who::Service, Who::Approver, Who::Admin]
    {
        look_around(&house, who, &waiting).await;
    }
    assert_eq!(everything(&house).await, before);
    assert_eq!(house.effects(), [""; 0]);
}

#[tokio::test]
async fn a18_following_every_link_that_is_ever_shown_decides_nothing() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let one = house.get(Who::Approver, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    let before = everything(&house).await;
    let link = one["url"].as_str().unwrap().strip_prefix(&house.base).unwrap().to_owned();
    for who in [Who::Nobody, Who::Agent, Who::Approver, Who::Admin] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            for suffix in ["", "?approved=true", "/resolve", "/approve", "/resolve?approved=true"] {
                house.request(who, method.clone(), &format!("{link}{suffix}")).send().await.unwrap();
                let api = format!("/api/elicitation/{}{suffix}", waiting.elicitation);
                house.request(who, method.clone(), &api).send().await.unwrap();
            }
        }
    }
    assert_eq!(everything(&house).await, before);
}
