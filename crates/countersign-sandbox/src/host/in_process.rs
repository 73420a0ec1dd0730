//! Scripts in this very process, each on a thread of its own: for embedders who trust their scripts, and for tests.
//!
//! Promise: the same turns as in a child, within the engine's own limits. There is no isolation and nobody who can end a
//! native function of the engine that runs too long: its thread goes on until that function returns.

use async_trait::async_trait;
use countersign_kernel::ports::{Completion, Program, ScriptFault, ScriptHost, Stripped, Turn, Vm};
use std::sync::mpsc;
use tokio::sync::oneshot;

use crate::limits::Limits;
use crate::worker::SCRIPT_STACK_BYTES;
use crate::worker::session::Session;

/// Gives each script a thread of this process.
#[derive(Debug, Clone)]
pub struct InProcessHost {
    limits: Limits,
}

impl InProcessHost {
    /// A host whose scripts may take so much.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

#[async_trait]
impl ScriptHost for InProcessHost {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        let (orders, given) = mpsc::channel();
        let limits = self.limits.clone();
        std::thread::Builder::new()
            .name("script".to_owned())
            .stack_size(SCRIPT_STACK_BYTES)
            .spawn(move || obey(&given, &limits))
            .map_err(|error| ScriptFault::Unavailable { cause: error.to_string() })?;
        Ok(Box::new(ThreadVm { orders: Some(orders) }))
    }
}

type Answer<T> = oneshot::Sender<Result<T, ScriptFault>>;

enum Order {
    Strip(String, Answer<Stripped>),
    Start(Program, Answer<Turn>),
    Deliver(Vec<Completion>, Answer<Turn>),
}

struct ThreadVm {
    /// Gone while an answer is owed, and after the end, as with a child.
    orders: Option<mpsc::Sender<Order>>,
}

impl ThreadVm {
    async fn ask<T>(&mut self, order: impl FnOnce(Answer<T>) -> Order) -> Result<T, ScriptFault> {
        let gone = |cause: &str| ScriptFault::Crashed { cause: cause.to_owned() };
        let orders = self.orders.take().ok_or_else(|| gone("the script has ended already"))?;
        let (asker, answer) = oneshot::channel();
        orders.send(order(asker)).map_err(|_| gone("its thread is gone"))?;
        let answer = answer.await.map_err(|_| gone("its thread panicked"))??;
        self.orders = Some(orders);
        Ok(answer)
    }

    async fn turn(&mut self, order: impl FnOnce(Answer<Turn>) -> Order) -> Result<Turn, ScriptFault> {
        let turn = self.ask(order).await?;
        if turn.end.is_some() {
            self.orders = None;
        }
        Ok(turn)
    }
}

#[async_trait]
impl Vm for ThreadVm {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        let source = source.to_owned();
        self.ask(|answer| Order::Strip(source, answer)).await
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.turn(|answer| Order::Start(program, answer)).await
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        self.turn(|answer| Order::Deliver(completions, answer)).await
    }
}

/// A script's thread. It ends when its VM is dropped, at the latest after the order at hand.
fn obey(given: &mpsc::Receiver<Order>, limits: &Limits) {
    let mut session = Session::new(limits.clone());
    for order in given {
        match (&mut session, order) {
            (Ok(session), Order::Strip(source, answer)) => send(answer, session.strip(&source)),
            (Ok(session), Order::Start(program, answer)) => send(answer, session.start(&program)),
            (Ok(session), Order::Deliver(given, answer)) => send(answer, session.deliver(&given)),
            (Err(fault), Order::Strip(_, answer)) => send(answer, Err(fault.clone())),
            (Err(fault), Order::Start(_, answer) | Order::Deliver(_, answer)) => {
                send(answer, Err(fault.clone()));
            }
        }
    }
}

fn send<T>(answer: Answer<T>, said: Result<T, ScriptFault>) {
    // Whoever hung up does not want to know.
    let _ = answer.send(said);
}
