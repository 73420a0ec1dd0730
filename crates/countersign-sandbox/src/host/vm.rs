//! A script in a child of its own.
//!
//! Promise: whatever the child does, the host gets a turn that passed every check or a fault, and its own time and memory
//! stay bounded. Dropping the VM, or a call of it that has not answered yet, ends the child.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;
use std::time::Duration;

use async_trait::async_trait;
use countersign_kernel::ports::{Completion, Program, ScriptFault, Stripped, Turn, Vm};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::time::{Instant, Sleep};

use crate::frame::{self, Decoder, FrameFault};
use crate::host::check::{self, TurnCheck};
use crate::host::process::ChildHandle;
use crate::host::watchdog::{STALL_BOUND, Verdict, WATCH_EVERY, Watchdog};
use crate::limits::Limits;
use crate::message::{Answer, Hello, Order, Reply, Then, deliveries};

/// How long a child may take to send its first frame.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(10);

/// The text that the standard library writes before it aborts for lack of memory.
const OUT_OF_MEMORY_TEXT: &str = "memory allocation of";

/// A script in a child.
pub(crate) struct ChildVm {
    /// None while a reply is owed and after the end, so that a call that is dropped ends the child.
    child: Option<Connection>,
    limits: Limits,
    /// How many requests the script has made.
    requests: u32,
}

/// A child and the pipes to it.
struct Connection {
    child: ChildHandle,
    orders: pipe::Sender,
    replies: pipe::Receiver,
    /// The order that is being sent; kept for its memory.
    frame: Vec<u8>,
    decoder: Decoder,
    watchdog: Watchdog,
    /// When the watchdog looks next. One timer serves all turns: most are over long before it fires.
    next_look: Pin<Box<Sleep>>,
}

/// Why a child cannot go on.
enum Broken {
    HungUp,
    /// It sent something that no child of ours sends.
    Protocol(String),
    Watchdog(Verdict),
}

impl ChildVm {
    /// Takes over a child that has sent nothing yet, and waits for its first frame.
    pub(crate) async fn connect(child: ChildHandle, limits: &Limits) -> Result<(Self, Hello), ScriptFault> {
        let unavailable = |cause: String| ScriptFault::Unavailable { cause };
        let mut child = Connection::new(child, limits).map_err(|error| unavailable(error.to_string()))?;
        let broken = match tokio::time::timeout(HELLO_BOUND, child.hello()).await {
            Ok(Ok(hello)) => {
                // The CPU time that the child needed to get ready does not count for the script.
                child.watchdog = Watchdog::new(child.child.pid(), limits);
                return Ok((Self { child: Some(child), limits: limits.clone(), requests: 0 }, hello));
            }
            Ok(Err(broken)) => broken,
            Err(_) => Broken::Protocol(format!("it sent nothing within {} s", HELLO_BOUND.as_secs())),
        };
        Err(match child.reap(broken, limits).await {
            ScriptFault::Crashed { cause } => unavailable(cause),
            fault => unavailable(fault.to_string()),
        })
    }

    /// Sends an order and returns its answer, which passed every check.
    async fn execute(&mut self, order: &Order) -> Result<Answer, ScriptFault> {
        let ended = || ScriptFault::Crashed { cause: "the script has ended already".to_owned() };
        let mut child = self.child.take().ok_or_else(ended)?;
        child.frame.clear();
        if let Err(fault) = frame::append(&mut child.frame, order) {
            self.child = Some(child);
            return Err(self.unsendable(&fault));
        }
        let turn = TurnCheck::new(&self.limits, self.requests);
        match child.exchange(turn).await {
            Ok(Ok(answer)) => {
                if let Answer::Turn(turn) = &answer {
                    self.requests += u32::try_from(turn.requests.len()).unwrap_or(u32::MAX);
                }
                let ended = matches!(&answer, Answer::Turn(turn) if turn.end.is_some());
                self.child = Some(child).filter(|_| !ended);
                Ok(answer)
            }
            Ok(Err(fault)) => Err(check::fault(fault, &self.limits)),
            Err(broken) => Err(child.reap(broken, &self.limits).await),
        }
    }

    async fn turn(&mut self, order: &Order) -> Result<Turn, ScriptFault> {
        match self.execute(order).await? {
            Answer::Turn(turn) => Ok(turn),
            Answer::Stripped(_) => Err(self.wrong_answer()),
        }
    }

    fn wrong_answer(&mut self) -> ScriptFault {
        self.child = None;
        ScriptFault::Crashed { cause: "it answered something else than it was asked".to_owned() }
    }

    fn unsendable(&self, fault: &FrameFault) -> ScriptFault {
        match fault {
            FrameFault::TooLong { .. } => ScriptFault::ValueTooLarge { bound: self.limits.value_bytes },
            FrameFault::Empty | FrameFault::Unwritable { .. } => {
                ScriptFault::Crashed { cause: fault.to_string() }
            }
        }
    }
}

#[async_trait]
impl Vm for ChildVm {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        let (bytes, bound) = (source.len(), self.limits.source_bytes);
        if bytes > bound {
            return Err(ScriptFault::TooLong { bytes, bound });
        }
        match self.execute(&Order::Strip { source: source.to_owned() }).await? {
            Answer::Stripped(stripped) => Ok(stripped),
            Answer::Turn(_) => Err(self.wrong_answer()),
        }
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.turn(&Order::Start(program)).await
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        let mut whole = Turn::default();
        // Each batch is answered before the next is sent: the two sides never write at the same time.
        for order in deliveries(completions) {
            let turn = self.turn(&order).await?;
            whole.requests.extend(turn.requests);
            whole.logs.extend(turn.logs);
            whole.end = turn.end;
            if whole.end.is_some() {
                break;
            }
        }
        Ok(whole)
    }
}

impl Connection {
    fn new(mut child: ChildHandle, limits: &Limits) -> std::io::Result<Self> {
        let pipes = child.take_pipes().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let watchdog = Watchdog::new(child.pid(), limits);
        Ok(Self {
            child,
            orders: pipe::Sender::from_owned_fd(OwnedFd::from(pipes.orders))?,
            replies: pipe::Receiver::from_owned_fd(OwnedFd::from(pipes.replies))?,
            frame: Vec::new(),
            decoder: Decoder::default(),
            watchdog,
            next_look: Box::pin(tokio::time::sleep(WATCH_EVERY)),
        })
    }

    async fn hello(&mut self) -> Result<Hello, Broken> {
        let frame = next_frame(&mut self.replies, &mut self.decoder).await?;
        check::hello(frame).map_err(Broken::Protocol)
    }

    /// Sends the order in `frame` and waits for the whole answer, watched.
    async fn exchange(&mut self, turn: TurnCheck<'_>) -> Result<Result<Answer, ScriptFault>, Broken> {
        let Self { orders, replies, frame, decoder, watchdog, next_look, .. } = self;
        // A child sends only answers. Bytes that are here before the order is sent answer nothing.
        match replies.try_read(decoder.room()) {
            Ok(0) => return Err(Broken::HungUp),
            Err(_) if decoder.unread() == 0 => {}
            _ => return Err(Broken::Protocol("it spoke without being asked".to_owned())),
        }
        watchdog.expect_reply();
        let answer = async {
            orders.write_all(frame).await.map_err(|_| Broken::HungUp)?;
            answer(replies, decoder, turn).await
        };
        tokio::pin!(answer);
        loop {
            // The answer comes first: a child that has answered is not blamed for a late look at it.
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = next_look.as_mut() => next_look.as_mut().reset(Instant::now() + WATCH_EVERY),
            }
            match watchdog.look() {
                Verdict::Fine => {}
                verdict => return Err(Broken::Watchdog(verdict)),
            }
        }
    }

    /// Ends the child, and returns the reason.
    async fn reap(self, broken: Broken, limits: &Limits) -> ScriptFault {
        let (status, stderr) = self.child.reap().await;
        match broken {
            Broken::Watchdog(Verdict::Overdue) => limits.cpu_exceeded(),
            Broken::Watchdog(_) => {
                let bound = STALL_BOUND.as_secs();
                ScriptFault::Crashed { cause: format!("it neither answered nor computed for {bound} s") }
            }
            Broken::Protocol(cause) => ScriptFault::Crashed { cause },
            Broken::HungUp => cause_of_death(status, &stderr, limits),
        }
    }
}

/// Reads a whole answer: a turn comes in as many frames as it takes, everything else in one.
async fn answer(
    replies: &mut pipe::Receiver,
    decoder: &mut Decoder,
    mut turn: TurnCheck<'_>,
) -> Result<Result<Answer, ScriptFault>, Broken> {
    let mut amid_turn = false;
    loop {
        let frame = next_frame(replies, decoder).await?;
        let bytes = frame.len();
        match check::reply(frame).map_err(Broken::Protocol)? {
            Reply::Part(part) => {
                amid_turn = true;
                if turn.add(part, bytes).map_err(Broken::Protocol)? == Then::Nothing {
                    return Ok(Ok(Answer::Turn(turn.finish())));
                }
            }
            Reply::Stripped(_) if amid_turn => {
                return Err(Broken::Protocol("a source amid a turn".to_owned()));
            }
            Reply::Stripped(stripped) => return Ok(Ok(Answer::Stripped(stripped))),
            Reply::Fault(fault) => return Ok(Err(fault)),
        }
    }
}

async fn next_frame<'a>(replies: &mut pipe::Receiver, decoder: &'a mut Decoder) -> Result<&'a [u8], Broken> {
    let protocol = |fault: FrameFault| Broken::Protocol(fault.to_string());
    while !decoder.is_ready().map_err(protocol)? {
        match replies.read(decoder.room()).await {
            Ok(0) | Err(_) => return Err(Broken::HungUp),
            Ok(bytes) => decoder.filled(bytes),
        }
    }
    decoder.frame().map_err(protocol)?.ok_or(Broken::HungUp)
}

/// Why a child ended that was not killed by the host.
fn cause_of_death(status: Option<ExitStatus>, stderr: &str, limits: &Limits) -> ScriptFault {
    if stderr.contains(OUT_OF_MEMORY_TEXT) {
        return limits.out_of_memory();
    }
    let signal = status.and_then(|status| status.signal());
    let named = signal.and_then(|number| Signal::try_from(number).ok());
    let how = match (named, signal, status) {
        (Some(Signal::SIGXCPU), ..) => return limits.cpu_exceeded(),
        (Some(Signal::SIGSYS), ..) => "ended by SIGSYS: it tried a forbidden system call".to_owned(),
        (Some(signal), ..) => format!("ended by {signal}"),
        (None, Some(number), _) => format!("ended by signal {number}"),
        (None, None, Some(status)) => format!("it ended with {status}"),
        (None, None, None) => "it ended, and its exit status is unknown".to_owned(),
    };
    let cause = if stderr.is_empty() { how } else { format!("{how}; it said: {stderr}") };
    ScriptFault::Crashed { cause }
}
