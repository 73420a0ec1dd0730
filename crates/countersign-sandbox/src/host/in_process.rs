//! Scripts in this very process, each on a thread of its own: for embedders who trust their scripts, and for tests.
//!
//! Promise: the same turns as in a child, within the engine's own limits. There is no isolation, and nothing can end a
//! native function of the engine that runs too long: its thread goes on until that function returns.

use async_trait::async_trait;
use countersign_kernel::ports::{Completion, Program, ScriptFault, ScriptHost, Stripped, Turn, Vm};
use std::sync::mpsc;
use tokio::sync::oneshot;

use crate::limits::Limits;
use crate::message::{Answer, Order};
use crate::worker::SCRIPT_STACK_BYTES;
use crate::worker::session::Session;

/// Gives each script a thread of this process.
#[derive(Debug, Clone)]
pub struct InProcessHost {
    limits: Limits,
}

impl InProcessHost {
    /// A host whose scripts have these limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

#[async_trait]
impl ScriptHost for InProcessHost {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        let (orders, asked) = mpsc::channel();
        let limits = self.limits.clone();
        std::thread::Builder::new()
            .name("script".to_owned())
            .stack_size(SCRIPT_STACK_BYTES)
            .spawn(move || run(&asked, &limits))
            .map_err(|error| ScriptFault::Unavailable { cause: error.to_string() })?;
        Ok(Box::new(ThreadVm { orders: Some(orders) }))
    }
}

type Asked = (Order, oneshot::Sender<Result<Answer, ScriptFault>>);

struct ThreadVm {
    /// None while an answer is owed and after the end, as with a child.
    orders: Option<mpsc::Sender<Asked>>,
}

impl ThreadVm {
    async fn execute(&mut self, order: Order) -> Result<Answer, ScriptFault> {
        let orders = self.orders.take().ok_or_else(|| crashed("the script has ended already"))?;
        let (asker, answer) = oneshot::channel();
        orders.send((order, asker)).map_err(|_| crashed("its thread is gone"))?;
        let answer = answer.await.map_err(|_| crashed("its thread panicked"))??;
        let ended = matches!(&answer, Answer::Turn(turn) if turn.end.is_some());
        self.orders = Some(orders).filter(|_| !ended);
        Ok(answer)
    }

    async fn turn(&mut self, order: Order) -> Result<Turn, ScriptFault> {
        match self.execute(order).await? {
            Answer::Turn(turn) => Ok(turn),
            Answer::Stripped(_) => Err(crashed("no turn")),
        }
    }
}

fn crashed(cause: &str) -> ScriptFault {
    ScriptFault::Crashed { cause: cause.to_owned() }
}

#[async_trait]
impl Vm for ThreadVm {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        match self.execute(Order::Strip { source: source.to_owned() }).await? {
            Answer::Stripped(stripped) => Ok(stripped),
            Answer::Turn(_) => Err(crashed("no source")),
        }
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.turn(Order::Start(program)).await
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        self.turn(Order::Deliver { completions }).await
    }
}

/// A script's thread. It ends when its VM is dropped, at the latest after the current order.
fn run(asked: &mpsc::Receiver<Asked>, limits: &Limits) {
    let mut session = Session::new(limits.clone());
    for (order, asker) in asked {
        let answer = match &mut session {
            Ok(session) => session.execute(order),
            Err(fault) => Err(fault.clone()),
        };
        // The VM may have been dropped meanwhile.
        let _ = asker.send(answer);
    }
}
