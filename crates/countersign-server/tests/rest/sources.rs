//! `/api/sources` over a registry in memory: what is passed on, who may do it, and how each refusal reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use countersign_kernel::Caller;
use countersign_kernel::ports::{
    Acceptance, CallFigures, CredentialConfig, CredentialPlace, FieldChange, SecretPlace, SourceConfig,
    SourceDetail, SourceHealth, SourceKind, SourceOrigin, SourceSummary, SourceTool, Sources, SourcesError,
    ToolStanding, UnmappedOperation,
};
use countersign_sdk::EffectClass;
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

/// The name of the source that the configuration file has.
const IN_FILE: &str = "filed";
/// What a registry in memory offers under every source, and its digest.
const DIGEST: &str = "d1";
const TOOLS: [(&str, EffectClass); 2] = [("list", EffectClass::Reads), ("drop", EffectClass::Destroys)];

/// Sources in memory. Every source offers [`TOOLS`].
#[derive(Default)]
struct Registry {
    configs: Mutex<BTreeMap<String, SourceConfig>>,
    accepted: Mutex<BTreeSet<String>>,
    /// Who changed something.
    changed_by: Mutex<Vec<String>>,
}

impl Registry {
    fn detail(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        let not_found = || SourcesError::NotFound(name.to_owned());
        let config = match name {
            IN_FILE => None,
            _ => Some(self.configs.lock().unwrap().get(name).cloned().ok_or_else(not_found)?),
        };
        let origin = if config.is_some() { SourceOrigin::Added } else { SourceOrigin::File };
        Ok(self.offered(name, origin))
    }

    fn offered(&self, name: &str, origin: SourceOrigin) -> SourceDetail {
        let accepted = self.accepted.lock().unwrap();
        let tool = |(leaf, effect): &(&str, EffectClass)| {
            let path = format!("{name}.{leaf}");
            let standing = match accepted.contains(&path) {
                true => ToolStanding::Accepted,
                false if name == "changed" => ToolStanding::Changed,
                false => ToolStanding::New,
            };
            let change =
                FieldChange { field: "description", accepted: "\"a\"".into(), offered: "\"b\"".into() };
            let changes = if standing == ToolStanding::Changed { vec![change] } else { vec![] };
            SourceTool {
                path,
                origin: (*leaf).to_owned(),
                effect: *effect,
                description: "as the source says".to_owned(),
                standing,
                changes,
            }
        };
        let tools: Vec<SourceTool> = TOOLS.iter().map(tool).collect();
        let count = |wanted: ToolStanding| tools.iter().filter(|tool| tool.standing == wanted).count();
        let summary = SourceSummary {
            name: name.to_owned(),
            kind: "mcp",
            target: "here".to_owned(),
            origin,
            health: SourceHealth::Ready,
            problem: None,
            callable: count(ToolStanding::Accepted),
            new: count(ToolStanding::New),
            changed: count(ToolStanding::Changed),
            missing: 0,
            unmapped: 1,
            calls: CallFigures { calls: 3, errors: 1, mean_ms: 12 },
        };
        let unmapped = vec![UnmappedOperation { origin: "POST /x".into(), reason: "multipart".into() }];
        SourceDetail { summary, digest: DIGEST.to_owned(), tools, unmapped, warnings: vec!["odd".into()] }
    }

    fn changes(&self, by: &Caller, name: &str) -> Result<(), SourcesError> {
        if name == IN_FILE {
            return Err(SourcesError::InFile(name.to_owned()));
        }
        self.changed_by.lock().unwrap().push(by.principal.id.to_string());
        Ok(())
    }

    fn read(config: &SourceConfig) -> Result<(), SourcesError> {
        match config.name.as_str() {
            "away" => Err(SourcesError::Unreachable("nothing answers there".to_owned())),
            "lab" => Err(SourcesError::Catalog("lab is a plugin's".to_owned())),
            name if name.contains('-') => Err(SourcesError::BadConfig("a name is one segment".to_owned())),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Sources for Registry {
    async fn list(&self) -> Vec<SourceSummary> {
        let names: Vec<String> = self.configs.lock().unwrap().keys().cloned().collect();
        names.iter().map(|name| self.offered(name, SourceOrigin::Added).summary).collect()
    }

    async fn show(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        self.detail(name)
    }

    async fn preview(&self, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        Self::read(&config)?;
        Ok(self.offered(&config.name, SourceOrigin::Added))
    }

    async fn put(&self, by: &Caller, config: SourceConfig) -> Result<SourceDetail, SourcesError> {
        Self::read(&config)?;
        self.changes(by, &config.name)?;
        let name = config.name.clone();
        self.configs.lock().unwrap().insert(name.clone(), config);
        self.detail(&name)
    }

    async fn refresh(&self, name: &str) -> Result<SourceDetail, SourcesError> {
        self.detail(name)
    }

    async fn accept(&self, by: &Caller, name: &str, what: Acceptance) -> Result<SourceDetail, SourcesError> {
        let now = self.detail(name)?;
        if what.digest.is_some_and(|digest| digest != now.digest) {
            return Err(SourcesError::NotWhatWasShown);
        }
        let offered: Vec<String> = now.tools.into_iter().map(|tool| tool.path).collect();
        let wanted = if what.paths.is_empty() { offered.clone() } else { what.paths };
        if let Some(unknown) = wanted.iter().find(|path| !offered.contains(path)) {
            return Err(SourcesError::NothingToAccept(unknown.clone()));
        }
        self.changed_by.lock().unwrap().push(by.principal.id.to_string());
        self.accepted.lock().unwrap().extend(wanted);
        self.detail(name)
    }

    async fn remove(&self, by: &Caller, name: &str) -> Result<(), SourcesError> {
        self.detail(name)?;
        self.changes(by, name)?;
        self.configs.lock().unwrap().remove(name);
        Ok(())
    }
}

/// A server with sources in memory.
async fn with_sources() -> (House, Arc<Registry>) {
    let registry = Arc::new(Registry::default());
    let sources = Arc::clone(&registry) as Arc<dyn Sources>;
    (House::with(move |options| options.sources = Some(Arc::clone(&sources))).await, registry)
}

fn files(name: &str) -> Value {
    json!({ "name": name, "kind": "mcp", "command": ["files-server", "/srv"] })
}

async fn put(house: &House, who: Who, path: &str, body: Value) -> Answer {
    Answer::of(house.request(who, Method::PUT, path).json(&body).send().await.unwrap()).await
}

#[tokio::test]
async fn a_source_is_added_with_its_whole_configuration_and_its_tools_wait() {
    let (house, registry) = with_sources().await;
    let body = json!({
        "name": "github", "kind": "openapi", "document": "/etc/github.json", "server": "https://api.github.com",
        "variables": { "region": "eu" }, "hosts": ["uploads.github.com"], "trustChanges": true, "allowPrivate": true,
        "credentials": [{ "as": "bearer", "env": "GH" }, { "as": "header", "name": "X-Key", "file": "/k" },
                        { "as": "basic", "user": "ann", "env": "PW" }],
        "tools": { "include": ["issues.*"], "readOnly": ["issues.list"], "names": { "getIssue": "issues.get" } },
    });
    let added = house.post(Who::Admin, "/api/sources", body).await.with(201);
    assert_eq!((&added["name"], &added["new"], &added["callable"]), (&json!("github"), &json!(2), &json!(0)));
    assert_eq!(added["tools"][0]["standing"], "new");
    assert_eq!(added["tools"][1]["effect"], "destroys");
    assert_eq!(added["unmapped"], json!([{ "origin": "POST /x", "reason": "multipart" }]));
    assert_eq!((&added["digest"], &added["unmappedCount"]), (&json!(DIGEST), &json!(1)));
    let kept = registry.configs.lock().unwrap()["github"].clone();
    let SourceKind::OpenApi { document, server, variables, hosts } = kept.kind else { panic!("{kept:?}") };
    assert_eq!((document.as_str(), server.as_deref()), ("/etc/github.json", Some("https://api.github.com")));
    assert_eq!((variables["region"].as_str(), hosts.len()), ("eu", 1));
    assert!(kept.trust_changes && kept.allow_private);
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
    assert_eq!(*registry.changed_by.lock().unwrap(), [by], "whoever asked is whoever changed it");
}

#[tokio::test]
async fn a_preview_answers_what_a_source_would_bring_and_keeps_nothing() {
    let (house, registry) = with_sources().await;
    let shown = house.post(Who::Admin, "/api/sources?preview=true", files("files")).await.with(200);
    assert_eq!(shown["tools"][0]["path"], "files.list");
    assert_eq!(house.get(Who::Admin, "/api/sources").await.with(200)["items"], json!([]));
    assert!(registry.changed_by.lock().unwrap().is_empty());
    house.get(Who::Admin, "/api/sources/files").await.refused(404, "source_not_found");
    house.post(Who::Admin, "/api/sources?preview=perhaps", files("files")).await.refused(400, "bad_request");
}

#[tokio::test]
async fn a_source_is_listed_shown_changed_refreshed_and_removed() {
    let (house, registry) = with_sources().await;
    house.post(Who::Admin, "/api/sources", files("files")).await.with(201);
    for who in [Who::Admin, Who::Approver] {
        let list = house.get(who, "/api/sources").await.with(200);
        assert_eq!((&list["items"][0]["name"], &list["nextCursor"]), (&json!("files"), &json!(null)));
        assert_eq!(list["items"][0]["calls"], json!({ "calls": 3, "errors": 1, "meanMs": 12 }));
        assert_eq!(house.get(who, "/api/sources/files").await.with(200)["digest"], DIGEST);
    }
    let other = json!({ "name": "files", "kind": "graphql", "url": "https://x.example", "schema": "/s" });
    put(&house, Who::Admin, "/api/sources/files", other).await.with(200);
    let kept = registry.configs.lock().unwrap()["files"].kind.clone();
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
    let change = json!([{ "field": "description", "accepted": "\"a\"", "offered": "\"b\"" }]);
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
async fn every_refusal_of_the_registry_has_its_status_and_code() {
    let (house, registry) = with_sources().await;
    let add = async |body| house.post(Who::Admin, "/api/sources", body).await;
    add(files("away")).await.refused(502, "source_unreachable");
    add(files("lab")).await.refused(409, "source_conflict");
    add(files("a-b")).await.refused(422, "invalid_source");
    add(files(IN_FILE)).await.refused(409, "source_in_file");
    put(&house, Who::Admin, "/api/sources/filed", files(IN_FILE)).await.refused(409, "source_in_file");
    house.delete(Who::Admin, "/api/sources/filed").await.refused(409, "source_in_file");
    assert!(registry.configs.lock().unwrap().is_empty());
    add(files("files")).await.with(201);
    add(files("files")).await.refused(409, "source_exists");
    put(&house, Who::Admin, "/api/sources/other", files("files")).await.refused(422, "invalid_source");
}

#[tokio::test]
async fn a_configuration_with_a_field_that_means_nothing_is_refused_and_never_half_taken() {
    let (house, registry) = with_sources().await;
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
    assert!(registry.configs.lock().unwrap().is_empty());
}

#[tokio::test]
async fn only_admins_change_sources_and_agents_do_not_even_see_them() {
    let (house, registry) = with_sources().await;
    for who in [Who::Agent, Who::Service, Who::Approver] {
        house.post(who, "/api/sources", files("files")).await.refused(403, "not_allowed");
        house.post(who, "/api/sources?preview=true", files("files")).await.refused(403, "not_allowed");
        house.post(who, "/api/sources/files/accept", json!({})).await.refused(403, "not_allowed");
        put(&house, who, "/api/sources/files", files("files")).await.refused(403, "not_allowed");
        house.delete(who, "/api/sources/files").await.refused(403, "not_allowed");
    }
    house.get(Who::Agent, "/api/sources").await.refused(403, "not_allowed");
    house.get(Who::Service, "/api/sources/files").await.refused(403, "not_allowed");
    assert!(registry.configs.lock().unwrap().is_empty());
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
