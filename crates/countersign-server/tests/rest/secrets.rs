//! A26: tokens, cookies, CSRF tokens and login codes stand where they are handed over, and nowhere else.

use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::answer::Answer;
use crate::house::{House, Who};

/// Keeps every log line of this process, of every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        attributes.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a26_no_token_cookie_csrf_token_or_login_code_is_in_any_log_audit_error_list_or_result() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let house = House::open().await;
    let made =
        house.post(Who::Admin, "/api/tokens", json!({ "name": "ci", "role": "approver" })).await.with(201);
    let link = house.post(Who::Approver, "/api/login-links", json!(null)).await.with(201);
    let code = link["url"].as_str().unwrap().rsplit('=').next().unwrap().to_owned();
    let page = house.get(Who::Nobody, &format!("/login?code={code}")).await;
    assert_eq!(page.status, 200);
    let request = house
        .request(Who::Nobody, Method::POST, "/login")
        .header("content-type", "application/x-www-form-urlencoded");
    let logged_in = Answer::of(request.body(format!("code={code}")).send().await.unwrap()).await;
    let cookie = logged_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let with_cookie =
        |method: Method, path: &str| house.request(Who::Nobody, method, path).header("cookie", &cookie);
    let csrf = logged_in.text.split("data-csrf=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();

    let mut said = everything_said(&house, &code).await;
    let wrong = with_cookie(Method::POST, "/logout").header("x-csrf-token", format!("{csrf}x"));
    said.push_str(&Answer::of(wrong.send().await.unwrap()).await.text);
    let right = with_cookie(Method::POST, "/api/policy/explain")
        .header("x-csrf-token", &csrf)
        .json(&json!({ "tool": "no.such" }));
    said.push_str(&Answer::of(right.send().await.unwrap()).await.text);
    said.push_str(&format!("{:?}", house.gateway.audit(0, 10_000).await.unwrap()));
    let logged = log.0.lock().unwrap().clone();
    assert!(logged.contains("status=401") && logged.contains("/api/elicitation"), "the log was on: {logged}");
    let seal = cookie.rsplit('.').next().unwrap();
    let mut canaries = vec![
        ("login code", code.as_str()),
        ("csrf", &csrf),
        ("cookie's seal", seal),
        ("new token", made["secret"].as_str().unwrap()),
    ];
    for who in [Who::Agent, Who::Approver, Who::Admin, Who::Revoked, Who::Garbage] {
        canaries.push(("token", house.secret(who).unwrap()));
    }
    for (what, canary) in canaries {
        assert!(!said.contains(canary), "a {what} was said");
        assert!(!logged.contains(canary), "a {what} was logged");
    }
}

/// Goes everywhere, rightly and wrongly, and gives everything that was answered.
async fn everything_said(house: &House, used: &str) -> String {
    let mut said = String::new();
    let waiting = house.wants_to_destroy("a").await;
    for who in [Who::Garbage, Who::Revoked, Who::Agent, Who::Approver, Who::Admin] {
        for (method, path, _) in crate::roles::requests() {
            // Streams do not end, and two answers hand a secret over, which is what they are for.
            if ["/api/events", "/mcp", "/api/login-links"].contains(&path)
                || (method == Method::POST && path == "/api/tokens")
            {
                continue;
            }
            let mut request = house.request(who, method.clone(), &crate::roles::address(path));
            if let Some(body) = crate::roles::body(&method, path) {
                request = request.json(&body);
            }
            said.push_str(&Answer::of(request.send().await.unwrap()).await.text);
        }
        for path in [
            format!("/api/executions/{}", waiting.execution),
            format!("/api/executions/{}/journal", waiting.execution),
            "/api/elicitation".into(),
            "/api/audit?limit=1000".into(),
        ] {
            said.push_str(&house.get(who, &path).await.text);
        }
    }
    said.push_str(&house.get(Who::Nobody, &format!("/login?code={used}")).await.text);
    let form = house.request(Who::Nobody, Method::POST, "/login").body(format!("code={used}"));
    said.push_str(&Answer::of(form.send().await.unwrap()).await.text);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
    said.push_str(&house.end_of(&waiting.execution).await.to_string());
    said.push_str(&house.get(Who::Nobody, "/openapi.json").await.text);
    said
}
