//! A script in a child of its own.
//!
//! Promise: whatever the child does, the host gets a turn that passed every check or a fault, and keeps its own time,
//! memory and life. Dropping the VM, or a call of it that has not answered yet, ends the child.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use async_trait::async_trait;
use countersign_kernel::ports::{Completion, Program, ScriptFault, Stripped, Turn, Vm};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::frame::{self, Decoder, FrameFault};
use crate::host::check::{self, Collected};
use crate::host::process::Leash;
use crate::host::watchdog::{STALL_BOUND, Verdict, WATCH_EVERY, Watchdog};
use crate::limits::Limits;
use crate::message::{Hello, Order, Reply, Then, deliveries};
use crate::worker::session::{cpu_limit, out_of_memory};

/// How much is read at once.
const READ_BYTES: usize = 64 * 1024;

/// How long a child may take to say its first word.
pub(crate) const HELLO_BOUND: Duration = Duration::from_secs(10);

/// What the standard library writes before it gives up for want of memory.
const NO_MEMORY_WORDS: &str = "memory allocation of";

/// A script in a child.
pub(crate) struct ChildVm {
    /// Gone while a reply is owed, and after the end: a call that is dropped takes the child with it.
    child: Option<Talk>,
    limits: Limits,
    /// How many requests the script has made.
    requests: u32,
}

/// A child, and the way to talk to it.
struct Talk {
    leash: Leash,
    orders: pipe::Sender,
    replies: pipe::Receiver,
    decoder: Decoder,
    read: Vec<u8>,
    watchdog: Watchdog,
}

/// Why a child cannot go on.
enum Trouble {
    /// It hung up.
    HungUp,
    /// It said what no child says.
    Odd(String),
    /// The watchdog says so.
    Watchdog(Verdict),
}

impl ChildVm {
    /// Takes over a child that has said nothing yet, and hears it out.
    pub(crate) async fn greet(leash: Leash, limits: &Limits) -> Result<(Self, Hello), ScriptFault> {
        let unavailable = |cause: String| ScriptFault::Unavailable { cause };
        let mut talk = Talk::new(leash, limits).map_err(|error| unavailable(error.to_string()))?;
        let greeted = tokio::time::timeout(HELLO_BOUND, talk.hello()).await;
        let trouble = match greeted {
            Ok(Ok(hello)) => {
                talk.watchdog = Watchdog::new(talk.leash.pid(), limits);
                return Ok((Self { child: Some(talk), limits: limits.clone(), requests: 0 }, hello));
            }
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::Odd(format!("no word from it within {} s", HELLO_BOUND.as_secs())),
        };
        Err(match talk.bury(trouble, limits).await {
            ScriptFault::Crashed { cause } => unavailable(cause),
            fault => unavailable(fault.to_string()),
        })
    }

    /// Has an order carried out. What comes back passed every check.
    async fn carry_out(&mut self, order: &Order) -> Result<Done, ScriptFault> {
        let gone = || ScriptFault::Crashed { cause: "the script has ended already".to_owned() };
        let mut frame = Vec::new();
        frame::append(&mut frame, order).map_err(|fault| self.unsendable(&fault))?;
        let mut talk = self.child.take().ok_or_else(gone)?;
        let mut collected = Collected::new(&self.limits, self.requests);
        match talk.exchange(&frame, &mut collected).await {
            Ok(Answer::Turn) => {
                let (turn, requests) = collected.turn();
                self.requests = requests;
                if turn.end.is_none() {
                    self.child = Some(talk);
                }
                Ok(Done::Turn(turn))
            }
            Ok(Answer::Stripped(stripped)) => {
                self.child = Some(talk);
                Ok(Done::Stripped(stripped))
            }
            Ok(Answer::Fault(said)) => Err(check::fault(said, &self.limits)),
            Err(trouble) => Err(talk.bury(trouble, &self.limits).await),
        }
    }

    async fn turn(&mut self, order: &Order) -> Result<Turn, ScriptFault> {
        match self.carry_out(order).await? {
            Done::Turn(turn) => Ok(turn),
            Done::Stripped(_) => Err(self.answered_something_else()),
        }
    }

    fn answered_something_else(&mut self) -> ScriptFault {
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
        match self.carry_out(&Order::Strip { source: source.to_owned() }).await? {
            Done::Stripped(stripped) => Ok(stripped),
            Done::Turn(_) => Err(self.answered_something_else()),
        }
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.turn(&Order::start(program)).await
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        let mut whole = Turn::default();
        // Each batch is answered before the next is sent: neither side ever writes while the other does.
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

/// What a child answered, turns apart, which are collected beside it.
enum Answer {
    Turn,
    Stripped(Stripped),
    Fault(ScriptFault),
}

/// What became of an order.
enum Done {
    Turn(Turn),
    Stripped(Stripped),
}

impl Talk {
    fn new(mut leash: Leash, limits: &Limits) -> std::io::Result<Self> {
        let pipes = leash.pipes().ok_or(std::io::ErrorKind::BrokenPipe)?;
        let watchdog = Watchdog::new(leash.pid(), limits);
        Ok(Self {
            leash,
            orders: pipe::Sender::from_owned_fd(OwnedFd::from(pipes.orders))?,
            replies: pipe::Receiver::from_owned_fd(OwnedFd::from(pipes.replies))?,
            decoder: Decoder::default(),
            read: vec![0; READ_BYTES],
            watchdog,
        })
    }

    async fn hello(&mut self) -> Result<Hello, Trouble> {
        self.frame().await.and_then(|frame| check::hello(frame).map_err(Trouble::Odd))
    }

    /// Sends an order and hears the whole answer, under the watchdog's eyes.
    async fn exchange(&mut self, order: &[u8], into: &mut Collected<'_>) -> Result<Answer, Trouble> {
        let Self { orders, replies, decoder, read, watchdog, .. } = self;
        // A child speaks when it is asked; what lies here already is no answer to what comes now.
        match replies.try_read(read) {
            Ok(0) => return Err(Trouble::HungUp),
            Err(_) if decoder.ahead() == 0 => {}
            _ => return Err(Trouble::Odd("it spoke without being asked".to_owned())),
        }
        watchdog.owed();
        let talk = async {
            orders.write_all(order).await.map_err(|_| Trouble::HungUp)?;
            answer(replies, decoder, read, into).await
        };
        tokio::pin!(talk);
        loop {
            // The answer first: a child that has answered is never held to account for a late look at it.
            tokio::select! {
                biased;
                answer = &mut talk => return answer,
                () = tokio::time::sleep(WATCH_EVERY) => match watchdog.look() {
                    Verdict::Fine => {}
                    verdict => return Err(Trouble::Watchdog(verdict)),
                },
            }
        }
    }

    async fn frame(&mut self) -> Result<&[u8], Trouble> {
        next_frame(&mut self.replies, &mut self.decoder, &mut self.read).await
    }

    /// Ends the child, and says in words why it had to end.
    async fn bury(self, trouble: Trouble, limits: &Limits) -> ScriptFault {
        let (status, last_words) = self.leash.end().await;
        match trouble {
            Trouble::Watchdog(Verdict::Overdue) => cpu_limit(limits),
            Trouble::Watchdog(_) => {
                let bound = STALL_BOUND.as_secs();
                ScriptFault::Crashed { cause: format!("it neither answered nor computed for {bound} s") }
            }
            Trouble::Odd(cause) => ScriptFault::Crashed { cause },
            Trouble::HungUp => cause_of_death(status, &last_words, limits),
        }
    }
}

/// Hears out an answer: parts of a turn go into `into`.
async fn answer(
    replies: &mut pipe::Receiver,
    decoder: &mut Decoder,
    read: &mut [u8],
    into: &mut Collected<'_>,
) -> Result<Answer, Trouble> {
    let mut parts = 0_usize;
    loop {
        let frame = next_frame(replies, decoder, read).await?;
        let bytes = frame.len();
        let reply = check::reply(frame).map_err(Trouble::Odd)?;
        match reply {
            Reply::Part(part) => {
                parts += 1;
                if into.take(part, bytes).map_err(Trouble::Odd)? == Then::Nothing {
                    return Ok(Answer::Turn);
                }
            }
            Reply::Stripped(stripped) if parts == 0 => return Ok(Answer::Stripped(stripped)),
            Reply::Fault(fault) => return Ok(Answer::Fault(fault)),
            Reply::Stripped(_) => return Err(Trouble::Odd("a source amid a turn".to_owned())),
        }
    }
}

async fn next_frame<'a>(
    replies: &mut pipe::Receiver,
    decoder: &'a mut Decoder,
    read: &mut [u8],
) -> Result<&'a [u8], Trouble> {
    while !decoder.is_ready().map_err(|fault| Trouble::Odd(fault.to_string()))? {
        match replies.read(read).await {
            Ok(0) | Err(_) => return Err(Trouble::HungUp),
            Ok(bytes) => decoder.feed(&read[..bytes]),
        }
    }
    match decoder.frame() {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) => Err(Trouble::HungUp),
        Err(fault) => Err(Trouble::Odd(fault.to_string())),
    }
}

/// What a child died of that ended by itself.
fn cause_of_death(status: Option<ExitStatus>, last_words: &str, limits: &Limits) -> ScriptFault {
    if last_words.contains(NO_MEMORY_WORDS) {
        return out_of_memory(limits);
    }
    let signal = status.and_then(|status| status.signal());
    let named = signal.and_then(|number| Signal::try_from(number).ok());
    let how = match (named, signal, status) {
        (Some(Signal::SIGXCPU), ..) => return cpu_limit(limits),
        (Some(Signal::SIGSYS), ..) => "ended by SIGSYS: it tried a forbidden system call".to_owned(),
        (Some(signal), ..) => format!("ended by {signal}"),
        (None, Some(number), _) => format!("ended by signal {number}"),
        (None, None, Some(status)) => format!("it ended with {status}"),
        (None, None, None) => "it is gone, nobody knows how".to_owned(),
    };
    let cause = if last_words.is_empty() { how } else { format!("{how}; it said: {last_words}") };
    ScriptFault::Crashed { cause }
}
