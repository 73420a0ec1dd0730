//! The clients that wait for calls and serve requests of their handlers: an upstream server may use the model of the client that
//! called it, or ask for its folders.
//!
//! Promises: a request goes to the client that made this very call, and only while that client waits for the answer. It is
//! bounded in size and time, and so is the answer. Nothing of it is recorded: after a restart no client is there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use countersign_core::bounds;
use countersign_core::ids::ExecutionId;
use countersign_sdk::{ClientCapability, ClientRequest, ToolError};
use serde_json::Value;
use tokio::sync::watch;

use crate::kernel::Kernel;

/// How long a client's model may take, with the person who may look at the request there.
const SAMPLING_WITHIN: Duration = Duration::from_secs(300);
/// How long a client may take to name its roots.
const ROOTS_WITHIN: Duration = Duration::from_secs(30);
/// The most requests of one call that wait for its client at once.
const MAX_OPEN_REQUESTS: usize = 4;
/// The most requests of one call: each may cost the client's user money.
const MAX_REQUESTS_PER_CALL: usize = 64;

/// The program that made a call, while it waits for the answer. Implemented by the front that it speaks to.
#[async_trait]
pub trait CallingClient: Send + Sync + 'static {
    /// Sends a request to the client and waits for its answer. Dropping the future withdraws the request.
    async fn serve(&self, request: ClientRequest) -> Result<Value, ClientRefusal>;
}

/// Why a client did not serve a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRefusal {
    /// It does not declare that it can.
    NotDeclared,
    /// It is gone.
    Gone,
    /// It answered with an error; the client's own words.
    Refused(String),
}

/// The waiting clients, by the execution that each began.
#[derive(Default)]
pub(crate) struct CallingClients {
    waiting: Mutex<HashMap<ExecutionId, Arc<WaitingClient>>>,
}

struct WaitingClient {
    client: Arc<dyn CallingClient>,
    /// Closed when the client no longer waits.
    waits: watch::Receiver<()>,
    open: AtomicUsize,
    total: AtomicUsize,
}

/// A client that waits. Dropping it withdraws what its call still asks of it.
pub struct ClientWaits {
    kernel: Arc<Kernel>,
    execution: ExecutionId,
    _waits: watch::Sender<()>,
}

impl Drop for ClientWaits {
    fn drop(&mut self) {
        self.kernel.calling_clients.waiting().remove(&self.execution);
    }
}

/// A request's place among those of its call.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Kernel {
    /// A client waits for an execution that is about to begin.
    pub(crate) fn client_waits(
        self: &Arc<Self>,
        execution: ExecutionId,
        client: Arc<dyn CallingClient>,
    ) -> ClientWaits {
        let sender = self.calling_clients.join(execution, client);
        ClientWaits { kernel: Arc::clone(self), execution, _waits: sender }
    }
}

impl CallingClients {
    fn join(&self, execution: ExecutionId, client: Arc<dyn CallingClient>) -> watch::Sender<()> {
        let (sender, waits) = watch::channel(());
        let (open, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
        self.waiting().insert(execution, Arc::new(WaitingClient { client, waits, open, total }));
        sender
    }

    /// Sends a request of an execution's handler to the client that waits for it.
    pub(crate) async fn ask(
        &self,
        execution: ExecutionId,
        request: ClientRequest,
    ) -> Result<Value, ToolError> {
        let capability = request.capability;
        let refused = |reason: String| ToolError::with_code(capability.refusal_code(), reason);
        let waiting = self.waiting().get(&execution).cloned();
        let waiting = waiting.ok_or_else(|| capability.not_available())?;
        bounds::check_size(&request.params)
            .map_err(|error| refused(format!("The request to the client is not sent: {error}.")))?;
        let _place = waiting.place().map_err(refused)?;
        let within = time_for(capability);
        let mut waits = waiting.waits.clone();
        let answered = tokio::select! {
            biased;
            // Nothing is ever sent on it; it ends with its sender.
            _ = waits.changed() => Err(ClientRefusal::Gone),
            answered = tokio::time::timeout(within, waiting.client.serve(request)) => answered.unwrap_or_else(|_| {
                Err(ClientRefusal::Refused(format!("it did not answer within {} s", within.as_secs())))
            }),
        };
        match answered {
            Ok(answer) => match bounds::check_size(&answer) {
                Ok(()) => Ok(answer),
                Err(error) => Err(refused(format!("The client's answer cannot be used: {error}."))),
            },
            Err(ClientRefusal::NotDeclared) => Err(capability.not_available()),
            Err(ClientRefusal::Gone) => Err(refused("The client no longer waits for the call.".to_owned())),
            Err(ClientRefusal::Refused(reason)) => {
                let reason = &reason[..reason.floor_char_boundary(bounds::MAX_TEXT_BYTES)];
                Err(refused(format!("The client that made the call refused: {reason}")))
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<WaitingClient>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingClient {
    fn place(&self) -> Result<Place<'_>, String> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= MAX_OPEN_REQUESTS {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(format!("The call waits for {MAX_OPEN_REQUESTS} answers of its client already."));
        }
        let place = Place(&self.open);
        if self.total.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS_PER_CALL {
            return Err(format!("The call has asked its client {MAX_REQUESTS_PER_CALL} times."));
        }
        Ok(place)
    }
}

fn time_for(capability: ClientCapability) -> Duration {
    match capability {
        ClientCapability::Sampling => SAMPLING_WITHIN,
        ClientCapability::Roots => ROOTS_WITHIN,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;

    /// Answers with a value, once it is let.
    struct Answers {
        value: Value,
        permits: Semaphore,
        asked: Mutex<Vec<ClientRequest>>,
    }

    impl Answers {
        fn with(value: Value, permits: usize) -> Arc<Self> {
            Arc::new(Self { value, permits: Semaphore::new(permits), asked: Mutex::default() })
        }

        fn asked(&self) -> usize {
            self.asked.lock().unwrap().len()
        }
    }

    #[async_trait]
    impl CallingClient for Answers {
        async fn serve(&self, request: ClientRequest) -> Result<Value, ClientRefusal> {
            self.asked.lock().unwrap().push(request);
            self.permits.acquire().await.unwrap().forget();
            Ok(self.value.clone())
        }
    }

    fn id(n: u8) -> ExecutionId {
        ExecutionId::from_random([n; 16])
    }

    fn sampling(params: Value) -> ClientRequest {
        ClientRequest { capability: ClientCapability::Sampling, params }
    }

    #[tokio::test]
    async fn a_request_reaches_the_client_of_its_own_execution_and_no_other() {
        let clients = CallingClients::default();
        let (ann, bob) = (Answers::with(json!("ann"), 10), Answers::with(json!("bob"), 10));
        let _ann_waits = clients.join(id(1), Arc::clone(&ann) as Arc<dyn CallingClient>);
        let _bob_waits = clients.join(id(2), Arc::clone(&bob) as Arc<dyn CallingClient>);
        assert_eq!(clients.ask(id(2), sampling(json!({}))).await.unwrap(), json!("bob"));
        let error = clients.ask(id(3), sampling(json!({}))).await.unwrap_err();
        assert_eq!(error.code().as_str(), "sampling_not_available");
        assert_eq!((ann.asked(), bob.asked()), (0, 1));
    }

    #[tokio::test]
    async fn what_waits_for_a_client_ends_when_the_client_no_longer_waits() {
        let clients = CallingClients::default();
        let client = Answers::with(json!("late"), 0);
        let waits = clients.join(id(1), Arc::clone(&client) as Arc<dyn CallingClient>);
        let (refused, ()) = tokio::join!(clients.ask(id(1), sampling(json!({}))), async {
            tokio::task::yield_now().await;
            drop(waits);
        });
        assert!(refused.unwrap_err().message().contains("no longer waits"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_answers_is_waited_for_until_its_deadline() {
        let clients = CallingClients::default();
        let client = Answers::with(json!("late"), 0);
        let _waits = clients.join(id(1), client as Arc<dyn CallingClient>);
        for (capability, within) in
            [(ClientCapability::Sampling, SAMPLING_WITHIN), (ClientCapability::Roots, ROOTS_WITHIN)]
        {
            let begun = tokio::time::Instant::now();
            let refused = clients.ask(id(1), ClientRequest { capability, params: json!({}) }).await;
            assert!(refused.unwrap_err().message().contains("did not answer within"));
            assert_eq!(begun.elapsed().as_secs(), within.as_secs());
        }
    }

    #[tokio::test]
    async fn request_and_answer_have_a_bound() {
        let clients = CallingClients::default();
        for (bytes, fits) in [(bounds::MAX_VALUE_BYTES - 100, true), (bounds::MAX_VALUE_BYTES + 1, false)] {
            let large = Value::String("x".repeat(bytes));
            let client = Answers::with(large.clone(), 10);
            let _waits = clients.join(id(1), Arc::clone(&client) as Arc<dyn CallingClient>);
            assert_eq!(clients.ask(id(1), sampling(json!({}))).await.is_ok(), fits, "an answer of {bytes}");
            let client = Answers::with(json!({}), 10);
            let _waits = clients.join(id(1), Arc::clone(&client) as Arc<dyn CallingClient>);
            assert_eq!(clients.ask(id(1), sampling(large)).await.is_ok(), fits, "a request of {bytes}");
            assert_eq!(client.asked(), usize::from(fits));
        }
    }

    #[tokio::test]
    async fn a_call_asks_its_client_only_so_often_at_once_and_in_all() {
        let clients = CallingClients::default();
        let client = Answers::with(json!({}), 0);
        let _waits = clients.join(id(1), Arc::clone(&client) as Arc<dyn CallingClient>);
        let mut open = Vec::new();
        for _ in 0..MAX_OPEN_REQUESTS {
            let mut asked = Box::pin(clients.ask(id(1), sampling(json!({}))));
            assert!(futures_util::poll!(&mut asked).is_pending());
            open.push(asked);
        }
        let refused = clients.ask(id(1), sampling(json!({}))).await.unwrap_err();
        assert!(refused.message().contains("answers of its client already"), "{refused:?}");
        drop(open);
        client.permits.add_permits(MAX_REQUESTS_PER_CALL);
        for _ in MAX_OPEN_REQUESTS..MAX_REQUESTS_PER_CALL {
            clients.ask(id(1), sampling(json!({}))).await.unwrap();
        }
        let refused = clients.ask(id(1), sampling(json!({}))).await.unwrap_err();
        assert!(refused.message().contains("has asked its client"), "{refused:?}");
    }
}
