//! Route by role: who gets in where, and that no way of writing a request gets an agent past it.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

const ANYBODY: &[Who] =
    &[Who::Nobody, Who::Garbage, Who::Revoked, Who::Agent, Who::Service, Who::Approver, Who::Admin];
const KNOWN: &[Who] = &[Who::Agent, Who::Service, Who::Approver, Who::Admin];
const CALLERS: &[Who] = &[Who::Agent, Who::Service, Who::Admin];
const DECIDERS: &[Who] = &[Who::Approver, Who::Admin];
const ADMINS: &[Who] = &[Who::Admin];

/// Every route there is, and who gets in. Written down a second time on purpose: a slip in the server's own table shows here.
const WHO_GETS_IN: &[(&str, &str, &[Who])] = &[
    ("GET", "/healthz", ANYBODY),
    ("GET", "/readyz", ANYBODY),
    ("GET", "/metrics", ANYBODY),
    ("GET", "/openapi.json", ANYBODY),
    ("GET", "/", DECIDERS),
    ("GET", "/inbox/cards", DECIDERS),
    ("GET", "/elicitations/{id}", DECIDERS),
    ("GET", "/executions", DECIDERS),
    ("GET", "/executions/{id}", DECIDERS),
    ("GET", "/tools", DECIDERS),
    ("GET", "/tools/{path}", DECIDERS),
    ("GET", "/sources", DECIDERS),
    ("GET", "/sources/{name}", DECIDERS),
    ("GET", "/add-source", ADMINS),
    ("POST", "/add-source/preview", ADMINS),
    ("GET", "/sessions", DECIDERS),
    ("GET", "/sessions/{id}", DECIDERS),
    ("GET", "/audit", DECIDERS),
    ("GET", "/tokens", ADMINS),
    ("GET", "/users", ADMINS),
    ("GET", "/assets/{name}", ANYBODY),
    ("GET", "/login", ANYBODY),
    ("POST", "/login", ANYBODY),
    ("POST", "/logout", KNOWN),
    ("GET", "/api/whoami", KNOWN),
    ("GET", "/api/standing", DECIDERS),
    ("POST", "/api/executions", CALLERS),
    ("GET", "/api/executions", KNOWN),
    ("GET", "/api/executions/{id}", KNOWN),
    ("GET", "/api/executions/{id}/journal", KNOWN),
    ("POST", "/api/executions/{id}/cancel", KNOWN),
    ("POST", "/api/executions/{id}/resume", DECIDERS),
    ("POST", "/api/executions/{id}/settle", DECIDERS),
    ("GET", "/api/elicitation", KNOWN),
    ("GET", "/api/elicitation/{id}", KNOWN),
    ("POST", "/api/elicitation/{id}/resolve", DECIDERS),
    ("GET", "/api/events", KNOWN),
    ("GET", "/api/tools", KNOWN),
    ("GET", "/api/tools/{path}", KNOWN),
    ("GET", "/api/declarations", KNOWN),
    ("POST", "/api/policy/explain", KNOWN),
    ("GET", "/api/sessions", DECIDERS),
    ("GET", "/api/sessions/{id}/approvals", KNOWN),
    ("POST", "/api/sessions/{id}/approvals", DECIDERS),
    ("DELETE", "/api/sessions/{id}/approvals", DECIDERS),
    ("DELETE", "/api/sessions/{id}/approvals/{grant}", DECIDERS),
    ("GET", "/api/audit", DECIDERS),
    ("GET", "/api/audit/verify", DECIDERS),
    ("GET", "/api/tokens", ADMINS),
    ("POST", "/api/tokens", ADMINS),
    ("DELETE", "/api/tokens/{id}", ADMINS),
    ("POST", "/api/login-links", DECIDERS),
    ("GET", "/api/users", ADMINS),
    ("POST", "/api/users", ADMINS),
    ("PATCH", "/api/users/{id}", ADMINS),
    ("POST", "/api/users/{id}/invite", ADMINS),
    ("GET", "/api/sources", DECIDERS),
    ("POST", "/api/sources", ADMINS),
    ("GET", "/api/sources/{name}", DECIDERS),
    ("PUT", "/api/sources/{name}", ADMINS),
    ("DELETE", "/api/sources/{name}", ADMINS),
    ("POST", "/api/sources/{name}/refresh", ADMINS),
    ("POST", "/api/sources/{name}/accept", ADMINS),
    ("PUT", "/api/sources/{name}/effects", ADMINS),
    ("GET", "/api/configuration", ADMINS),
    ("*", "/mcp", CALLERS),
];

/// Every route with a method that it takes.
pub(crate) fn requests() -> Vec<(Method, &'static str, &'static [Who])> {
    let mut all = Vec::new();
    for (method, path, who) in WHO_GETS_IN {
        let methods = if *method == "*" { &["GET", "POST", "DELETE"][..] } else { &[*method][..] };
        all.extend(methods.iter().map(|method| (method.parse().unwrap(), *path, *who)));
    }
    all
}

/// Whether people read what a route answers: then a refusal is a page too.
pub(crate) fn is_page(path: &str) -> bool {
    let for_programs = ["/api", "/mcp", "/healthz", "/readyz", "/metrics", "/openapi.json", "/logout"];
    !for_programs.iter().any(|start| path.starts_with(start))
}

/// An address that a route matches; there is nothing behind its ids.
pub(crate) fn address(path: &str) -> String {
    let id = if path.contains("elicitation") {
        "eli"
    } else if path.contains("tokens") {
        "tok"
    } else if path.contains("users") {
        "usr"
    } else {
        "exec"
    };
    let id = if path.contains("sessions") { "ses_nobodys".to_owned() } else { format!("{id}_{:032x}", 1) };
    path.replace("{id}", &id)
        .replace("{grant}", &format!("gra_{:032x}", 1))
        .replace("{path}", "lab.read")
        .replace("{name}", "console.css")
}

/// A body that fits the route, so that only the role can be wrong.
pub(crate) fn body(method: &Method, path: &str) -> Option<Value> {
    match (method.as_str(), path) {
        ("POST", "/api/executions") => Some(json!({ "tool": "github.logs.export" })),
        ("POST", p) if p.ends_with("/resume") || p.ends_with("/resolve") => Some(json!({ "approved": true })),
        ("POST", p) if p.ends_with("/settle") => Some(json!({ "call": 0, "as": "failed" })),
        ("POST", p) if p.ends_with("/explain") => Some(json!({ "tool": "lab.read" })),
        ("POST", p) if p.ends_with("/approvals") => Some(json!({ "toolPath": "lab.destroy" })),
        ("POST", p) if p.ends_with("/tokens") => Some(json!({ "name": "new", "role": "admin" })),
        ("POST", "/api/users") => Some(json!({ "name": "new" })),
        ("PATCH", p) if p.contains("/users/") => Some(json!({ "disabled": true })),
        ("POST", "/api/sources" | "/add-source/preview") | ("PUT", "/api/sources/{name}") => {
            Some(json!({ "name": "console.css", "kind": "mcp", "command": ["true"] }))
        }
        ("POST", "/api/sources/{name}/accept") => Some(json!({})),
        ("PUT", "/api/sources/{name}/effects") => Some(json!({ "tool": "console.css.x", "effect": "reads" })),
        ("POST", "/mcp") => Some(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })),
        _ => None,
    }
}

/// A server that lets wrong credentials come as often as they like.
async fn unhurried() -> House {
    House::with(|options| options.limits.failures_per_second = NonZeroU32::MAX).await
}

async fn knock(house: &House, who: Who, method: &Method, path: &str) -> (u16, String) {
    let mut request = house.request(who, method.clone(), &address(path));
    if let Some(body) = body(method, path) {
        request = request.json(&body);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    // Streams do not end; what is refused does.
    let text = if status >= 400 { response.text().await.unwrap() } else { String::new() };
    (status, text)
}

#[test]
fn every_route_of_the_server_is_known_here_and_back() {
    let served: BTreeSet<_> = countersign_server::routes().into_iter().collect();
    let known: BTreeSet<_> = WHO_GETS_IN.iter().map(|(method, path, _)| (*method, *path)).collect();
    assert_eq!(served, known);
}

#[tokio::test]
async fn everybody_gets_in_where_they_may_and_nowhere_else() {
    let house = unhurried().await;
    for (method, path, let_in) in requests() {
        for who in ANYBODY {
            let (status, text) = knock(&house, *who, &method, path).await;
            let what = format!("{who:?} {method} {path}: {status} {text}");
            match who {
                _ if let_in.contains(who) => assert!(!matches!(status, 401 | 403 | 405), "{what}"),
                Who::Nobody | Who::Garbage | Who::Revoked => {
                    assert!(status == 401 && text.contains("unauthenticated"), "{what}");
                }
                _ => assert!(status == 403 && text.contains("not_allowed"), "{what}"),
            }
        }
    }
}

#[tokio::test]
async fn head_is_for_whom_get_is() {
    let house = unhurried().await;
    for (method, path, let_in) in requests() {
        if method != Method::GET || path == "/mcp" {
            continue;
        }
        for who in ANYBODY {
            let (status, _) = knock(&house, *who, &Method::HEAD, path).await;
            let (as_get, _) = knock(&house, *who, &Method::GET, path).await;
            assert_eq!(status, as_get, "{who:?} HEAD {path}, for {let_in:?}");
        }
    }
}

#[tokio::test]
async fn methods_that_a_route_does_not_take_are_refused_before_anybody_is_looked_at() {
    let house = House::open().await;
    let served = countersign_server::routes();
    for (_, path) in &served {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"] {
            let taken = |(m, p): &(&str, &str)| p == path && (*m == method || *m == "*");
            if served.iter().any(taken) {
                continue;
            }
            let request = house.request(Who::Admin, method.parse().unwrap(), &address(path));
            let answer = Answer::of(request.send().await.unwrap()).await;
            answer.refused(405, "method_not_allowed");
        }
    }
}

#[tokio::test]
async fn an_unknown_address_is_not_found_whoever_asks() {
    let house = House::open().await;
    for who in [Who::Nobody, Who::Agent, Who::Admin] {
        for path in ["/api", "/api/", "/api/nothing", "/api/executions/", "/admin", "/.env"] {
            house.get(who, path).await.refused(404, "not_found");
        }
    }
}

#[tokio::test]
async fn a_credential_counts_only_as_a_bearer_token() {
    let house = House::open().await;
    let secret = house.secret(Who::Admin).unwrap();
    for header in [
        format!("authorization: Basic {secret}\r\n"),
        format!("authorization: {secret}\r\n"),
        "authorization: Bearer\r\n".to_owned(),
        "authorization: Bearer \r\n".to_owned(),
        format!("x-api-key: {secret}\r\n"),
        format!("cookie: countersign={secret}\r\n"),
        format!("cookie: token={secret}\r\n"),
    ] {
        let (status, text) = house.raw_as(Who::Nobody, "GET /api/whoami", &header, "").await;
        assert_eq!(status, 401, "{header}: {text}");
    }
    let (status, _) = house.raw_as(Who::Nobody, &format!("GET /api/whoami?token={secret}"), "", "").await;
    assert_eq!(status, 401);
    let header = format!("authorization: bEARER {secret}\r\n");
    assert_eq!(house.raw_as(Who::Nobody, "GET /api/whoami", &header, "").await.0, 200);
}

#[tokio::test]
async fn of_two_credentials_the_one_that_is_wrong_is_not_covered_by_the_other() {
    let house = House::open().await;
    let good = house.secret(Who::Admin).unwrap();
    let two = format!("authorization: Bearer nonsense\r\nauthorization: Bearer {good}\r\n");
    let (status, text) = house.raw_as(Who::Nobody, "GET /api/tokens", &two, "").await;
    assert_eq!(status, 401, "{text}");
}
