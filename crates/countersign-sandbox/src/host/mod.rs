//! Hosts make VMs. [`ChildHost`] gives each script a process of its own; [`InProcessHost`] only a thread.
//!
//! Promise: a [`ChildHost`] fails closed. A child reports its isolation before it is sent anything, and gets no script if a
//! layer is missing, unless the options allow weaker isolation.

mod check;
mod in_process;
mod pool;
mod process;
mod vm;
mod watchdog;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use async_trait::async_trait;
use countersign_kernel::ports::{ScriptFault, ScriptHost, Vm};
use tokio::sync::{Semaphore, oneshot};

use crate::host::pool::Pool;
use crate::host::process::{Job, Supervisor};
use crate::host::vm::ChildVm;
use crate::limits::Limits;
use crate::message::Hello;
use crate::worker::{Isolation, RequiredIsolation};

pub use in_process::InProcessHost;

/// The default of [`ChildOptions::warm`].
pub const WARM_CHILDREN: usize = 2;

/// The default of [`ChildOptions::most`].
pub const MOST_CHILDREN: usize = 32;

/// How a [`ChildHost`] gets its children, and their limits.
#[derive(Debug, Clone)]
pub struct ChildOptions {
    /// The program that calls [`worker_main`](crate::worker_main). On Linux `/proc/self/exe` is this very program, even
    /// if another was installed in its place meanwhile.
    pub program: PathBuf,
    /// The arguments that make it a worker; the limits are added as the last one.
    pub args: Vec<OsString>,
    /// The limits of each script.
    pub limits: Limits,
    /// How many are kept ready beside those in use. Under load up to four times as many are; 0 keeps none ready.
    pub warm: usize,
    /// How many are in use at once; further scripts wait their turn.
    pub most: usize,
    /// How isolated a child must be before it is given a script.
    pub isolation: RequiredIsolation,
}

impl ChildOptions {
    /// The defaults for a program and the arguments that make it a worker.
    pub fn new(program: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            limits: Limits::default(),
            warm: WARM_CHILDREN,
            most: MOST_CHILDREN,
            isolation: RequiredIsolation::default(),
        }
    }
}

/// Gives each script a process of its own, which is never used again.
///
/// It needs a Tokio runtime with I/O and a clock that runs: under a paused clock a child seems to stall. Dropping it ends
/// the children that wait for a script; those in use go on.
pub struct ChildHost {
    options: Arc<ChildOptions>,
    pool: Arc<Pool>,
    supervisor: Arc<Supervisor>,
    in_use: Arc<Semaphore>,
    warned: Once,
}

impl ChildHost {
    /// Starts its threads and the first children. An error of a child shows when a VM is opened.
    pub fn new(options: ChildOptions) -> io::Result<Self> {
        let options = Arc::new(options);
        let pool = Arc::new(Pool::new(options.warm));
        let supervisor = Supervisor::new(Arc::clone(&options), &pool)?;
        let most = options.most.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self { options, pool, supervisor, in_use: Arc::new(Semaphore::new(most)), warned: Once::new() })
    }

    /// How isolated scripts are here: what a child has achieved, not what a kernel of this version should offer.
    pub async fn isolation(&self) -> Result<Isolation, ScriptFault> {
        self.child().await.map(|(_, hello)| hello.isolation)
    }

    async fn child(&self) -> Result<(ChildVm, Hello), ScriptFault> {
        let permit = Arc::clone(&self.in_use).acquire_owned().await.map_err(unavailable)?;
        let (waiting, started) = oneshot::channel();
        match self.pool.take() {
            Some(ready) => drop(waiting.send(Ok(ready))),
            None => self.supervisor.ask(Job::Start(waiting)),
        }
        self.supervisor.ask(Job::Fill);
        let mut child = started.await.map_err(unavailable)?.map_err(unavailable)?;
        child.hold(permit);
        ChildVm::connect(child, &self.options.limits).await
    }
}

#[async_trait]
impl ScriptHost for ChildHost {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        let (vm, hello) = self.child().await?;
        check::isolation(&hello.isolation, self.options.isolation)?;
        if !hello.isolation.is_full() {
            let isolation = hello.isolation;
            self.warned.call_once(|| tracing::warn!(%isolation, "scripts run without full isolation here"));
        }
        Ok(Box::new(vm))
    }

    fn places(&self) -> usize {
        self.options.most.max(1)
    }
}

fn unavailable(cause: impl std::fmt::Display) -> ScriptFault {
    ScriptFault::Unavailable { cause: cause.to_string() }
}
