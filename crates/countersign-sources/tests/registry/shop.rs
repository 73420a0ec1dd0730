//! A service on a port of this machine, its OpenAPI document on disk, and a gateway whose registry reads it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use countersign_kernel::Gateway;
use countersign_kernel::ports::{
    Acceptance, RefreshInterval, SecretPlace, SourceConfig, SourceDetail, SourceKind, Sources as _,
    ToolSettings, ToolStanding,
};
use countersign_sdk::SecretString;
use countersign_sources::{Reading, SecretReader, SourceRegistry};
use countersign_testkit::world::{World, admin};
use serde_json::{Value, json};

/// The secret that the service must see and nobody else.
pub(crate) const SECRET: &str = "canary-sk-0451";

/// How the service behaves from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Answers,
    /// It takes the request and closes the connection.
    HangsUp,
}

pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) gateway: Gateway,
    pub(crate) registry: SourceRegistry,
    pub(crate) service: Service,
    folder: tempfile::TempDir,
}

/// The service: what it was asked, and how it behaves.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<String>>>,
    /// The credential of each request; empty where there was none.
    keys: Arc<Mutex<Vec<String>>>,
    mood: Arc<Mutex<Mood>>,
    /// What it serves at `/document`.
    document: Arc<Mutex<Value>>,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let service = Service::start().await;
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(1);
        let gateway = world.start().await;
        let registry =
            SourceRegistry::start(gateway.clone(), vec![], Arc::new(OneSecret), Reading::FromTheStart);
        let registry = registry.await.unwrap();
        let shop = Self { world, gateway, registry, service, folder };
        shop.write_document("Lists the orders.");
        shop
    }

    pub(crate) fn secrets(&self) -> Arc<dyn SecretReader> {
        Arc::new(OneSecret)
    }

    pub(crate) fn document(&self) -> PathBuf {
        self.folder.path().join("shop.json")
    }

    /// Two operations; the description of the first is given.
    pub(crate) fn write_document(&self, description: &str) {
        let document = document(description, &self.service.url);
        std::fs::write(self.document(), document.to_string()).unwrap();
    }

    /// The same document with another server in it.
    pub(crate) fn write_server(&self, server: &str) {
        let document = document("Lists the orders.", server);
        std::fs::write(self.document(), document.to_string()).unwrap();
    }

    pub(crate) fn config(&self) -> SourceConfig {
        SourceConfig {
            name: "shop".to_owned(),
            kind: SourceKind::OpenApi {
                document: self.document().display().to_string(),
                server: None,
                variables: Default::default(),
                hosts: vec![],
            },
            credentials: serde_json::from_value(json!([{ "as": "bearer", "env": "SHOP_KEY" }])).unwrap(),
            allow_private: true,
            allow_hosts: vec![],
            allow_networks: vec![],
            proxy: None,
            provider: None,
            refresh: RefreshInterval::Never,
            trust_changes: false,
            tools: ToolSettings::default(),
        }
    }

    /// Adds the source and accepts everything it offers.
    pub(crate) async fn added(&self) -> SourceDetail {
        self.registry.put(&admin(), self.config()).await.unwrap();
        self.registry.accept(&admin(), "shop", Acceptance::default()).await.unwrap()
    }

    pub(crate) async fn standing(&self, path: &str) -> ToolStanding {
        let detail = self.registry.show("shop").await.unwrap();
        detail.tools.iter().find(|tool| tool.path == path).unwrap().standing
    }
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            asked: Arc::default(),
            keys: Arc::default(),
            mood: Arc::new(Mutex::new(Mood::Answers)),
            document: Arc::default(),
        };
        let app = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        service
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    /// Serves this from now on; the address it is at.
    pub(crate) fn serves(&self, document: Value) -> String {
        *self.document.lock().unwrap() = document;
        format!("{}/document", self.url)
    }

    pub(crate) fn is_now(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

async fn answer(State(service): State<Service>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let key = parts.headers.get("authorization").map_or("", |value| value.to_str().unwrap()).to_owned();
    let asked =
        format!("{} {} {}", parts.method, parts.uri.path(), String::from_utf8_lossy(&body)).trim().to_owned();
    service.asked.lock().unwrap().push(asked);
    service.keys.lock().unwrap().push(key.clone());
    if parts.uri.path() == "/document" {
        return axum::Json(service.document.lock().unwrap().clone()).into_response();
    }
    let mood = *service.mood.lock().unwrap();
    match (mood, parts.method.as_str()) {
        // The task ends without an answer, and the connection with it.
        (Mood::HangsUp, _) => std::panic::resume_unwind(Box::new("hung up")),
        (Mood::Answers, "POST") => (StatusCode::CREATED, axum::Json(json!({ "id": 7 }))).into_response(),
        (Mood::Answers, _) => axum::Json(json!({ "orders": ["a"], "you sent": key })).into_response(),
    }
}

struct OneSecret;

impl SecretReader for OneSecret {
    fn read(&self, place: &SecretPlace) -> Result<SecretString, String> {
        match place {
            SecretPlace::Env(name) if name == "SHOP_KEY" => Ok(SecretString::from(SECRET)),
            other => Err(format!("there is no secret at {other:?}")),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A document of two operations.
pub(crate) fn document(description: &str, server: &str) -> Value {
    let order = json!({ "schema": { "type": "object", "required": ["what"], "properties": { "what": { "type": "string" } } } });
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Shop", "version": "1" },
        "servers": [{ "url": server }],
        "paths": {
            "/orders": {
                "get": { "operationId": "orders/list", "description": description, "responses": { "200": { "description": "ok" } } },
                "post": {
                    "operationId": "orders/create",
                    "requestBody": { "required": true, "content": { "application/json": order } },
                    "responses": { "201": { "description": "made" } },
                },
            },
        },
    })
}

/// The arguments of an order.
pub(crate) fn order() -> Value {
    json!({ "body": { "what": "a bicycle" } })
}
