//! The one fixture: a real server on a free port over a gateway in a test's world, and a token for everybody.

use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{ElicitationFilter, ElicitationRow, Page, Store};
use countersign_kernel::{Caller, Gateway, NewToken};
use countersign_sdk::{ExposeSecret as _, Role};
use countersign_server::{Links, Options, Server};
use countersign_testkit::faulty_store::{Faults, FaultyStore};
use countersign_testkit::lab;
use countersign_testkit::world::World;
use metrics_exporter_prometheus::PrometheusHandle;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::answer::Answer;

/// What every server here seals with.
const KEY: [u8; 32] = [7; 32];
/// Nothing here takes this long unless it never happens.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Nobody,
    Garbage,
    Revoked,
    Agent,
    /// An agent of somebody else.
    OtherAgent,
    Service,
    Approver,
    /// Another person who may decide.
    OtherApprover,
    Admin,
}

/// A token's secret, and who it makes its holder.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) caller: Caller,
}

#[derive(Clone)]
struct Keys {
    revoked: Key,
    agent: Key,
    other_agent: Key,
    service: Key,
    approver: Key,
    other_approver: Key,
    admin: Key,
}

/// A running server.
pub(crate) struct House {
    pub(crate) world: World,
    pub(crate) gateway: Gateway,
    pub(crate) faults: Faults,
    pub(crate) server: Server,
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    keys: Keys,
    choose: Arc<dyn Fn(&mut Options) + Send + Sync>,
}

/// A call that waits for a person.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) execution: String,
    pub(crate) elicitation: String,
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// A server with other options.
    pub(crate) async fn with(choose: impl Fn(&mut Options) + Send + Sync + 'static) -> Self {
        Self::of(World::new(1), choose).await
    }

    /// A server in another world.
    pub(crate) async fn of(world: World, choose: impl Fn(&mut Options) + Send + Sync + 'static) -> Self {
        Self::on(world, Arc::new(choose), None, None).await
    }

    /// A server whose `/metrics` prints what this recorder has.
    pub(crate) async fn recorded_by(prometheus: PrometheusHandle) -> Self {
        Self::on(World::new(1), Arc::new(|_| {}), None, Some(prometheus)).await
    }

    /// Stops the server, and starts another one on what it left on the disk.
    pub(crate) async fn after(self) -> Self {
        let Self { world, server, keys, choose, .. } = self;
        server.stop(PATIENCE).await;
        world.clock.end_life();
        world.clock.pass(1_000);
        Self::on(world, choose, Some(keys), None).await
    }

    /// The process dies, and another one starts on what it left on the disk. Its handlers never come to an end.
    pub(crate) async fn after_a_crash(self) -> Self {
        let Self { world, faults, keys, choose, .. } = self;
        faults.crash();
        world.clock.end_life();
        world.clock.pass(1_000);
        Self::on(world, choose, Some(keys), None).await
    }

    async fn on(
        world: World,
        choose: Arc<dyn Fn(&mut Options) + Send + Sync>,
        keys: Option<Keys>,
        prometheus: Option<PrometheusHandle>,
    ) -> Self {
        let faults = Faults::none();
        let store: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::new(world.disk.clone()), faults.clone()));
        let gateway = world.start_with(world.builder(store).plugin(lab::github(&world.ledger))).await;
        let keys = match keys {
            Some(keys) => keys,
            None => Keys::make(&gateway).await,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let mut options = Options::at(Links::below(&base), KEY);
        choose(&mut options);
        let server = Server::start(listener, gateway.clone(), options, prometheus).unwrap();
        // Its TLS is never used, but it wants a provider to be made at all.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE);
        Self { world, gateway, faults, server, base, http: http.build().unwrap(), keys, choose }
    }

    /// What somebody sends as their token.
    pub(crate) fn secret(&self, who: Who) -> Option<&str> {
        match who {
            Who::Nobody => None,
            Who::Garbage => Some("cs_00000000000000000000000000000000000000000000000000000000000000"),
            known => Some(&self.key(known).secret),
        }
    }

    /// The token of somebody who has one.
    pub(crate) fn key(&self, who: Who) -> &Key {
        match who {
            Who::Nobody | Who::Garbage => panic!("{who:?} has no token"),
            Who::Revoked => &self.keys.revoked,
            Who::Agent => &self.keys.agent,
            Who::OtherAgent => &self.keys.other_agent,
            Who::Service => &self.keys.service,
            Who::Approver => &self.keys.approver,
            Who::OtherApprover => &self.keys.other_approver,
            Who::Admin => &self.keys.admin,
        }
    }

    /// A request in the making.
    pub(crate) fn request(&self, who: Who, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match self.secret(who) {
            Some(secret) => request.bearer_auth(secret),
            None => request,
        }
    }

    pub(crate) async fn get(&self, who: Who, path: &str) -> Answer {
        Answer::of(self.request(who, Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, who: Who, path: &str, body: Value) -> Answer {
        Answer::of(self.request(who, Method::POST, path).json(&body).send().await.unwrap()).await
    }

    pub(crate) async fn patch(&self, who: Who, path: &str, body: Value) -> Answer {
        Answer::of(self.request(who, Method::PATCH, path).json(&body).send().await.unwrap()).await
    }

    pub(crate) async fn delete(&self, who: Who, path: &str) -> Answer {
        Answer::of(self.request(who, Method::DELETE, path).send().await.unwrap()).await
    }

    /// The agent calls a tool.
    pub(crate) async fn call(&self, tool: &str, args: Value) -> Answer {
        self.post(Who::Agent, "/api/executions", json!({ "tool": tool, "args": args })).await
    }

    /// The agent calls what must come to wait for a person; each a millisecond later, so that lists have one order.
    pub(crate) async fn asks(&self, tool: &str, args: Value) -> Waiting {
        self.world.clock.jump(1);
        let result = self.call(tool, args).await.with(200);
        assert_eq!(result["status"], "paused", "{result}");
        let id = |field: &str| result["paused"][field].as_str().unwrap().to_owned();
        Waiting { execution: id("executionId"), elicitation: id("elicitationId") }
    }

    /// The agent asks to destroy something; each time is a question of its own.
    pub(crate) async fn wants_to_destroy(&self, what: &str) -> Waiting {
        self.asks("lab.destroy_each", json!({ "what": what })).await
    }

    /// Somebody decides.
    pub(crate) async fn resolve(&self, who: Who, id: &str, approved: bool) -> Answer {
        self.post(who, &format!("/api/elicitation/{id}/resolve"), json!({ "approved": approved })).await
    }

    /// How an execution ends.
    pub(crate) async fn end_of(&self, execution: &str) -> Value {
        self.get(Who::Agent, &format!("/api/executions/{execution}?waitMs=10000")).await.with(200)
    }

    /// What took effect.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.world.ledger.effects().into_iter().map(|effect| effect.what).collect()
    }

    /// The questions nobody answered yet.
    pub(crate) async fn open_questions(&self) -> Vec<ElicitationRow> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        self.gateway.elicitations(filter, Page::first(1_000)).await.unwrap().items
    }

    /// How many audit records there are.
    pub(crate) async fn recorded(&self) -> u64 {
        self.gateway.standing().await.unwrap().recorded
    }

    /// A connection of one's own, for what no decent client sends.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Sends these bytes; gives the status, and everything that came back until the connection closed.
    pub(crate) async fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        read.expect("the connection is closed").unwrap_or_default();
        let text = String::from_utf8_lossy(&answer).into_owned();
        (text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), text)
    }

    /// Sends a request with this line and these headers as they stand, as somebody, with a JSON body.
    pub(crate) async fn raw_as(&self, who: Who, line: &str, headers: &str, body: &str) -> (u16, String) {
        let bearer =
            self.secret(who).map(|secret| format!("authorization: Bearer {secret}\r\n")).unwrap_or_default();
        let host = if headers.starts_with("host:") {
            String::new()
        } else {
            format!("host: {}\r\n", self.server.address())
        };
        let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let request = format!(
            "{line} HTTP/1.1\r\n{host}{bearer}{kind}{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        self.raw(&request).await
    }
}

impl Keys {
    async fn make(gateway: &Gateway) -> Self {
        let operator = gateway.ensure_operator("admin").await.unwrap().id;
        let key = async |name: &str, role: Role| {
            // Every approver is a person of their own; everything else is the operator's.
            let user = match role {
                Role::Approver => gateway.create_user(name, vec![role], None).await.unwrap().id,
                _ => operator,
            };
            let minted = gateway.create_token(NewToken::new(name, role).of(user), None).await.unwrap();
            let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap().unwrap();
            Key { secret: minted.secret.expose_secret().to_owned(), caller }
        };
        let revoked = key("revoked", Role::Admin).await;
        gateway.revoke_token(revoked.caller.token.unwrap(), None).await.unwrap();
        Self {
            revoked,
            agent: key("agent", Role::Agent).await,
            other_agent: key("other agent", Role::Agent).await,
            service: key("service", Role::Service).await,
            approver: key("approver", Role::Approver).await,
            other_approver: key("other approver", Role::Approver).await,
            admin: key("admin", Role::Admin).await,
        }
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
