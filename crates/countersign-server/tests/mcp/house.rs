//! The one fixture: a gateway in a test's world, its MCP front on a real port, and a guard that knows tokens.

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use countersign_core::ids::{ElicitationId, TokenId};
use countersign_kernel::ports::{ElicitationFilter, ElicitationRow, Page};
use countersign_kernel::{Answer, Coverage, Decide, Gateway, NewToken, Receipt, Target};
use countersign_sdk::{ExposeSecret, Role};
use countersign_server::mcp::{self, Options};
use countersign_server::{Limits, Links};
use countersign_testkit::faulty_store::{Faults, FaultyStore};
use countersign_testkit::world::{World, ann};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, Era};
use crate::scripts::Recipe;
use crate::tools::{self, SlowHook};

/// What every front here seals with.
const KEY: [u8; 32] = [7; 32];

/// A running front. Dropping it stops nothing but its listener.
pub(crate) struct House {
    pub(crate) world: World,
    pub(crate) gateway: Gateway,
    pub(crate) options: Options,
    pub(crate) faults: Faults,
    pub(crate) slow_hook: SlowHook,
    url: String,
    stop: CancellationToken,
}

/// A token's secret, and its id.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) secret: String,
    pub(crate) id: TokenId,
}

impl House {
    pub(crate) async fn open() -> Self {
        Self::with(|_| {}).await
    }

    /// A front with other options.
    pub(crate) async fn with(choose: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::sealed_with(KEY);
        options.hold = Duration::from_millis(150);
        choose(&mut options);
        Self::on(World::new(1).with_scripts(Arc::new(Recipe)), options).await
    }

    /// A front under rules, written as in `countersign.toml`.
    pub(crate) async fn under(rules: &str) -> Self {
        let mut options = Options::sealed_with(KEY);
        options.hold = Duration::from_millis(150);
        Self::on(World::new(1).under(rules), options).await
    }

    /// A front over a gateway that parks what waits for a person at once.
    pub(crate) async fn that_parks() -> Self {
        let world = World::new(1).set(|settings| settings.park_after = Duration::ZERO);
        let mut options = Options::sealed_with(KEY);
        options.hold = Duration::from_secs(20);
        Self::on(world, options).await
    }

    /// A front over a gateway in which one principal has so many calls under way.
    pub(crate) async fn with_calls_under_way(each: usize) -> Self {
        let world = World::new(1).set(|settings| settings.max_calls_in_flight = 4 * each);
        Self::on(world, Options::sealed_with(KEY)).await
    }

    /// A front on what an earlier one left on the disk.
    pub(crate) async fn after(self) -> Self {
        self.stop.cancel();
        self.gateway.close(Duration::from_secs(1)).await;
        self.world.clock.end_life();
        Self::on(self.world.clone(), self.options.clone()).await
    }

    async fn on(world: World, options: Options) -> Self {
        let faults = Faults::none();
        let store = Arc::new(FaultyStore::new(Arc::new(world.disk.clone()), faults.clone()));
        let builder = world.builder(store).plugin(tools::plugin(&world.ledger));
        let slow_hook = SlowHook::new();
        let gateway = world.start_with(builder.pre_hook(slow_hook.clone())).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let front = mcp::service(
            gateway.clone(),
            Links::below(&base),
            options.clone(),
            &Limits::default(),
            stop.clone(),
        )
        .unwrap();
        let guarded = front.layer(middleware::from_fn_with_state(gateway.clone(), guard));
        let stopped = stop.clone();
        tokio::spawn(async move {
            let serving = axum::serve(listener, guarded);
            serving.with_graceful_shutdown(stopped.cancelled_owned()).await.unwrap();
        });
        Self { world, gateway, options, faults, slow_hook, url: format!("{base}/mcp"), stop }
    }

    /// Tells the front to stop.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// A token of the operator's; an agent's is attended.
    pub(crate) async fn key(&self, role: Role) -> Key {
        let new = NewToken { attended: role == Role::Agent, ..NewToken::new("test", role) };
        self.key_for(new).await
    }

    /// The token of an agent whose client nobody declared attended.
    pub(crate) async fn unattended_key(&self) -> Key {
        self.key_for(NewToken::new("unattended", Role::Agent)).await
    }

    /// A token like this; of the operator where it names nobody.
    pub(crate) async fn key_for(&self, new: NewToken) -> Key {
        let operator = self.gateway.ensure_operator("operator").await.unwrap();
        let new = NewToken { user: new.user.or(Some(operator.id)), ..new };
        let minted = self.gateway.create_token(new, None).await.unwrap();
        Key { secret: minted.secret.expose_secret().to_owned(), id: minted.row.id }
    }

    /// A client of a new agent that can ask its user.
    pub(crate) async fn client(&self, era: Era) -> Client {
        self.client_of(&self.key(Role::Agent).await, era).await
    }

    /// A client of an agent that can ask its user.
    pub(crate) async fn client_of(&self, key: &Key, era: Era) -> Client {
        Client::connect(&self.url, key, era, serde_json::json!({ "elicitation": {} })).await
    }

    /// A client of an agent that says this of itself.
    pub(crate) async fn client_that(&self, key: &Key, era: Era, can: serde_json::Value) -> Client {
        Client::connect(&self.url, key, era, can).await
    }

    /// The questions nobody answered yet.
    pub(crate) async fn open_questions(&self) -> Vec<ElicitationRow> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        self.gateway.elicitations(filter, Page::first(100)).await.unwrap().items
    }

    /// The only question that was ever asked.
    pub(crate) async fn only_question(&self) -> ElicitationRow {
        let all = self.gateway.elicitations(ElicitationFilter::default(), Page::first(100)).await.unwrap();
        let [only] = &all.items[..] else { panic!("{} questions", all.items.len()) };
        only.clone()
    }

    /// Ann decides elsewhere.
    pub(crate) async fn ann_says(&self, id: ElicitationId, answer: Answer) -> Receipt {
        let decide = Decide {
            target: Target::Elicitation(id),
            by: ann(),
            channel: "console".into(),
            answer,
            comment: None,
        };
        self.gateway.decide(decide).await.unwrap()
    }

    /// Ann approves the only open question for its session, elsewhere.
    pub(crate) async fn approves_for_the_session(&self) {
        let [open] = &self.until_open(1).await[..] else { unreachable!("one is open") };
        let answer = Answer::Approve { covers: Some(Coverage::SESSION), data: None };
        self.ann_says(open.elicitation.id, answer).await;
    }

    /// What took effect.
    pub(crate) fn effects(&self) -> Vec<String> {
        self.world.ledger.effects().into_iter().map(|effect| effect.what).collect()
    }

    /// Waits until so many questions are open.
    pub(crate) async fn until_open(&self, count: usize) -> Vec<ElicitationRow> {
        for _ in 0..6_000 {
            let open = self.open_questions().await;
            if open.len() == count {
                return open;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{count} questions are never open at once: {:?}", self.open_questions().await);
    }
}

async fn guard(State(gateway): State<Gateway>, mut request: Request, next: Next) -> Response {
    let secret = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let secret = secret.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    match gateway.authenticate(&secret).await.unwrap() {
        Some(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        // A guard that forgets to refuse: the front must not let anybody in by itself.
        None if secret == "forgotten" => next.run(request).await,
        None => StatusCode::UNAUTHORIZED.into_response(),
    }
}
