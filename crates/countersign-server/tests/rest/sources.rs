//! `/api/sources` over sources in memory: what is passed on, who may do it, and how each refusal reads.

use std::sync::Arc;

use countersign_kernel::ports::{
    CredentialConfig, CredentialPlace, MAX_LISTING_BYTES, SecretPlace, SourceKind, Sources,
};
use countersign_testkit::sources::{DIGEST, IN_FILE, LARGE, LARGE_TOOLS, MemorySources};
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

/// A server with sources in memory.
async fn with_sources() -> (House, Arc<MemorySources>) {
    let sources = Arc::new(MemorySources::default());
    let served = Arc::clone(&sources) as Arc<dyn Sources>;
    (House::with(move |options| options.sources = Some(Arc::clone(&served))).await, sources)
}

fn files(name: &str) -> Value {
    json!({ "name": name, "kind": "mcp", "command": ["files-server", "/srv"] })
}

async fn put(house: &House, who: Who, path: &str, body: Value) -> Answer {
    Answer::of(house.request(who, Method::PUT, path).json(&body).send().await.unwrap()).await
}

#[tokio::test]
async fn a_source_is_added_with_its_whole_configuration_and_its_tools_wait() {
    let (house, sources) = with_sources().await;
    let body = json!({
        "name": "github", "kind": "openapi", "document": "/etc/github.json", "server": "https://api.github.com",
        "variables": { "region": "eu" }, "hosts": ["uploads.github.com"], "trustChanges": true, "allowPrivate": true,
        "allowHosts": ["db.lan"], "allowNetworks": ["10.1.0.0/16"], "proxy": "http://proxy.example:3128", "refresh": "1h",
        "credentials": [{ "as": "bearer", "env": "GH" }, { "as": "header", "name": "X-Key", "file": "/k" },
                        { "as": "basic", "user": "ann", "env": "PW" }],
        "tools": { "include": ["issues.*"], "readOnly": ["issues.list"], "idempotent": ["issues.put"], "names": { "getIssue": "issues.get" } },
    });
    let added = house.post(Who::Admin, "/api/sources", body).await.with(201);
    assert_eq!((&added["name"], &added["new"], &added["callable"]), (&json!("github"), &json!(2), &json!(0)));
    assert_eq!(added["tools"][0]["standing"], "new");
    assert_eq!(added["tools"][1]["effect"], "destroys");
    assert_eq!(added["unmapped"], json!([{ "origin": "POST /x", "reason": "multipart" }]));
    assert_eq!((&added["digest"], &added["unmappedCount"]), (&json!(DIGEST), &json!(1)));
    let kept = sources.config("github").unwrap();
    let SourceKind::OpenApi { document, server, variables, hosts } = kept.kind else { panic!("{kept:?}") };
    assert_eq!((document.as_str(), server.as_deref()), ("/etc/github.json", Some("https://api.github.com")));
    assert_eq!((variables["region"].as_str(), hosts.len()), ("eu", 1));
    assert!(kept.trust_changes && kept.allow_private);
    assert_eq!(
        (&kept.allow_hosts[..], &kept.allow_networks[..]),
        (&["db.lan".into()][..], &["10.1.0.0/16".into()][..])
    );
    assert_eq!(
        (kept.proxy.as_deref(), kept.refresh.to_string()),
        (Some("http://proxy.example:3128"), "1h".into())
    );
    assert_eq!(kept.tools.idempotent, ["issues.put"]);
    let credential = |goes, from| CredentialConfig { goes, from };
    assert_eq!(
        kept.credentials,
        [
            credential(CredentialPlace::Bearer, SecretPlace::Env("GH".into())),
            credential(CredentialPlace::Header { name: "X-Key".into() }, SecretPlace::File("/k".into())),
            credential(CredentialPlace::Basic { user: "ann".into() }, SecretPlace::Env("PW".into())),
        ]
    );
    assert_eq!(kept.tools.read_only, ["issues.list"]);
    assert_eq!(kept.tools.names["getIssue"], "issues.get");
    let by = house.key(Who::Admin).caller.principal.id.to_string();
    assert_eq!(sources.changed_by(), [by], "whoever asked is whoever changed it");
}

#[tokio::test]
async fn a_preview_answers_what_a_source_would_bring_and_keeps_nothing() {
    let (house, sources) = with_sources().await;
    let shown = house.post(Who::Admin, "/api/sources?preview=true", files("files")).await.with(200);
    assert_eq!(shown["tools"][0]["path"], "files.list");
    assert_eq!(house.get(Who::Admin, "/api/sources").await.with(200)["items"], json!([]));
    assert!(sources.changed_by().is_empty());
    house.get(Who::Admin, "/api/sources/files").await.refused(404, "source_not_found");
    house.post(Who::Admin, "/api/sources?preview=perhaps", files("files")).await.refused(400, "bad_request");
}

#[tokio::test]
async fn a_source_is_listed_shown_changed_refreshed_and_removed() {
    let (house, sources) = with_sources().await;
    house.post(Who::Admin, "/api/sources", files("files")).await.with(201);
    for who in [Who::Admin, Who::Approver] {
        let list = house.get(who, "/api/sources").await.with(200);
        assert_eq!((&list["items"][0]["name"], &list["nextCursor"]), (&json!("files"), &json!(null)));
        assert_eq!(list["items"][0]["calls"], json!({ "calls": 3, "errors": 1, "meanMs": 12 }));
        assert_eq!(house.get(who, "/api/sources/files").await.with(200)["digest"], DIGEST);
    }
    let other = json!({ "name": "files", "kind": "graphql", "url": "https://x.example", "schema": "/s" });
    put(&house, Who::Admin, "/api/sources/files", other).await.with(200);
    let kept = sources.config("files").unwrap().kind;
    assert_eq!(kept, SourceKind::GraphQl { url: "https://x.example".into(), schema: Some("/s".into()) });
    let refreshed =
        house.request(Who::Admin, Method::POST, "/api/sources/files/refresh").send().await.unwrap();
    assert_eq!(Answer::of(refreshed).await.with(200)["name"], "files");
    assert_eq!(house.delete(Who::Admin, "/api/sources/files").await.status, 204);
    house.delete(Who::Admin, "/api/sources/files").await.refused(404, "source_not_found");
}

#[tokio::test]
async fn accepting_names_what_was_shown_and_takes_all_or_the_tools_that_are_named() {
    let (house, _) = with_sources().await;
    house.post(Who::Admin, "/api/sources", files("changed")).await.with(201);
    let shown = house.get(Who::Approver, "/api/sources/changed").await.with(200);
    let change = json!([{ "field": "description", "accepted": "\"a\"", "offered": "\"b\\u202e\"" }]);
    assert_eq!(shown["tools"][0]["changes"], change);
    let accept = async |body| house.post(Who::Admin, "/api/sources/changed/accept", body).await;
    accept(json!({ "digest": "other" })).await.refused(409, "not_what_was_shown");
    accept(json!({ "paths": ["changed.no"] })).await.refused(409, "nothing_to_accept");
    accept(json!({ "path": "changed.list" })).await.refused(400, "bad_request");
    let one = accept(json!({ "paths": ["changed.list"], "digest": DIGEST })).await.with(200);
    assert_eq!((&one["callable"], &one["changed"]), (&json!(1), &json!(1)));
    assert_eq!(accept(json!({})).await.with(200)["callable"], 2);
}

#[tokio::test]
async fn the_parts_of_a_large_source_are_followed_to_the_end() {
    let (house, _) = with_sources().await;
    let added = house.post(Who::Admin, "/api/sources", files(LARGE)).await.with(201);
    assert!(added["nextCursor"].is_string(), "what is added is answered in parts, too");
    let (mut read, mut parts, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let part = house.get(Who::Approver, &format!("/api/sources/{LARGE}{cursor}")).await.with(200);
        assert_eq!(part["digest"], DIGEST, "the parts belong together");
        assert_eq!(part["unmapped"].as_array().unwrap().len(), usize::from(parts == 0));
        assert!(part["tools"].to_string().len() <= MAX_LISTING_BYTES);
        let tools = part["tools"].as_array().unwrap();
        read.extend(tools.iter().map(|tool| tool["path"].as_str().unwrap().to_owned()));
        parts += 1;
        let Some(next) = part["nextCursor"].as_str() else { break };
        cursor = format!("?cursor={next}");
    }
    let all: Vec<String> = (0..LARGE_TOOLS).map(|n| format!("{LARGE}.t{n}")).collect();
    assert_eq!((read, parts), (all, 4), "three tools of a megabyte fit into 4 MiB");
    let path = format!("/api/sources/{LARGE}?cursor={LARGE}.gone");
    house.get(Who::Approver, &path).await.refused(400, "bad_cursor");
    house.get(Who::Agent, &format!("/api/sources/{LARGE}{cursor}")).await.refused(403, "not_allowed");
}

#[tokio::test]
async fn an_admin_says_what_a_tool_does_and_takes_it_back() {
    let (house, sources) = with_sources().await;
    house.post(Who::Admin, "/api/sources", files("files")).await.with(201);
    let set = async |who, body| put(&house, who, "/api/sources/files/effects", body).await;
    let found = set(Who::Admin, json!({ "tool": "files.list", "effect": "destroys" })).await.with(200);
    let tool = &found["tools"][0];
    assert_eq!((&tool["effect"], &tool["offeredEffect"]), (&json!("destroys"), &json!("reads")));
    let by = house.key(Who::Admin).caller.principal.id.to_string();
    assert_eq!(sources.changed_by().last(), Some(&by), "whoever asked is whoever changed it");
    let found = set(Who::Admin, json!({ "tool": "files.list", "effect": null })).await.with(200);
    assert_eq!(found["tools"][0]["effect"], "reads");
    let before = sources.changed_by();
    set(Who::Admin, json!({ "tool": "files.no", "effect": "reads" })).await.refused(422, "invalid_source");
    set(Who::Admin, json!({ "tool": "files.list", "effect": "harmless" })).await.refused(400, "bad_request");
    for who in [Who::Agent, Who::Service, Who::Approver] {
        set(who, json!({ "tool": "files.list", "effect": "reads" })).await.refused(403, "not_allowed");
    }
    assert_eq!(sources.changed_by(), before);
}

#[tokio::test]
async fn the_standing_says_how_many_tools_wait_to_be_accepted() {
    let (house, _) = with_sources().await;
    house.post(Who::Admin, "/api/sources", files("files")).await.with(201);
    assert_eq!(house.get(Who::Approver, "/api/standing").await.with(200)["unacceptedTools"], 2);
    house.post(Who::Admin, "/api/sources/files/accept", json!({})).await.with(200);
    assert_eq!(house.get(Who::Approver, "/api/standing").await.with(200)["unacceptedTools"], 0);
}

#[tokio::test]
async fn every_refusal_of_the_sources_has_its_status_and_code() {
    let (house, sources) = with_sources().await;
    let add = async |body| house.post(Who::Admin, "/api/sources", body).await;
    add(files("away")).await.refused(502, "source_unreachable");
    add(files("lab")).await.refused(409, "source_conflict");
    add(files("a-b")).await.refused(422, "invalid_source");
    add(files(IN_FILE)).await.refused(409, "source_in_file");
    put(&house, Who::Admin, "/api/sources/filed", files(IN_FILE)).await.refused(409, "source_in_file");
    house.delete(Who::Admin, "/api/sources/filed").await.refused(409, "source_in_file");
    assert!(sources.is_empty());
    add(files("files")).await.with(201);
    add(files("files")).await.refused(409, "source_exists");
    put(&house, Who::Admin, "/api/sources/other", files("files")).await.refused(422, "invalid_source");
}

#[tokio::test]
async fn a_configuration_with_a_field_that_means_nothing_is_refused_and_never_half_taken() {
    let (house, sources) = with_sources().await;
    let mcp = |more: Value| {
        let mut config = files("files");
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let graphql = |credentials: Value| json!({ "name": "x", "kind": "graphql", "url": "https://x.example", "credentials": credentials });
    for (body, said) in [
        (mcp(json!({ "document": "/d" })), "no `document`"),
        (mcp(json!({ "url": "https://x.example" })), "either `url` or `command`"),
        (json!({ "name": "x", "kind": "mcp" }), "either `url` or `command`"),
        (json!({ "name": "x", "kind": "openapi" }), "needs `document`"),
        (json!({ "name": "x", "kind": "graphql" }), "needs `url`"),
        (json!({ "name": "x", "kind": "mcp", "url": "https://x", "folder": "/f" }), "`folder` belongs"),
        (mcp(json!({ "credentials": [{ "as": "bearer", "env": "A" }] })), "as variables"),
        (graphql(json!([{ "as": "variable", "name": "A", "env": "A" }])), "source with `command`"),
        (graphql(json!([{ "as": "bearer" }])), "either `env` or `file`"),
        (graphql(json!([{ "as": "bearer", "env": "A", "file": "b" }])), "either `env` or `file`"),
        (graphql(json!([{ "as": "header", "env": "A" }])), "needs `name`"),
        (graphql(json!([{ "as": "basic", "env": "A" }])), "needs `user`"),
        (mcp(json!({ "proxy": "http://proxy.example" })), "`proxy` is for a source with an address"),
        (mcp(json!({ "provider": "github" })), "`provider` is for a source with an address"),
        (mcp(json!({ "refresh": "often" })), "or \"never\""),
        (json!({ "name": "x", "kind": "mcp", "url": "https://x", "roots": ["/srv"] }), "`roots` belong"),
        (json!({ "name": "x", "kind": "graphql", "url": "https://x", "questions": "ask" }), "no `questions`"),
        (
            json!({ "name": "x", "kind": "graphql", "url": "https://x", "sampling": "client" }),
            "no `sampling`",
        ),
        (mcp(json!({ "roots": ["/srv"], "clientRoots": true })), "either `roots` or `clientRoots`"),
        (
            json!({ "name": "x", "kind": "graphql", "url": "https://x", "provider": "github",
                "credentials": [{ "as": "bearer", "env": "A" }] }),
            "either `provider` or `credentials`",
        ),
    ] {
        let refused = house.post(Who::Admin, "/api/sources", body).await.refused(422, "invalid_source");
        assert!(refused["detail"].as_str().unwrap().contains(said), "{refused} {said}");
    }
    for body in [
        mcp(json!({ "allow_private": true })),
        mcp(json!({ "tools": { "readonly": [] } })),
        mcp(json!({ "credentials": [{ "as": "bearer", "env": "A", "value": "secret" }] })),
        json!({ "name": "x", "kind": "soap", "url": "https://x" }),
    ] {
        house.post(Who::Admin, "/api/sources", body).await.refused(400, "bad_request");
    }
    assert!(sources.is_empty());
}

#[tokio::test]
async fn only_admins_change_sources_and_agents_do_not_even_see_them() {
    let (house, sources) = with_sources().await;
    for who in [Who::Agent, Who::Service, Who::Approver] {
        house.post(who, "/api/sources", files("files")).await.refused(403, "not_allowed");
        house.post(who, "/api/sources?preview=true", files("files")).await.refused(403, "not_allowed");
        house.post(who, "/api/sources/files/accept", json!({})).await.refused(403, "not_allowed");
        put(&house, who, "/api/sources/files", files("files")).await.refused(403, "not_allowed");
        house.delete(who, "/api/sources/files").await.refused(403, "not_allowed");
    }
    house.get(Who::Agent, "/api/sources").await.refused(403, "not_allowed");
    house.get(Who::Service, "/api/sources/files").await.refused(403, "not_allowed");
    assert!(sources.is_empty());
}

#[tokio::test]
async fn a_server_without_sources_lists_none_and_refuses_changes() {
    let house = House::open().await;
    assert_eq!(house.get(Who::Approver, "/api/sources").await.with(200)["items"], json!([]));
    house.get(Who::Admin, "/api/sources/files").await.refused(404, "source_not_found");
    house.post(Who::Admin, "/api/sources", files("files")).await.refused(501, "sources_not_available");
    house
        .post(Who::Admin, "/api/sources/files/accept", json!({}))
        .await
        .refused(501, "sources_not_available");
    house.delete(Who::Admin, "/api/sources/files").await.refused(501, "sources_not_available");
}
