//! The child: a process that runs one script, for a host that does not trust it.
//!
//! Promise: before it reads anything it has given up files, network, other processes and every system call it does not
//! need ([`Isolation`]), and has made its VM. It runs one script and ends with it; it ends when its input does.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod isolation;
#[cfg(target_os = "linux")]
mod linux;
mod pipe;
pub(crate) mod session;
#[cfg(target_os = "linux")]
mod syscalls;

use std::process::ExitCode;

use countersign_kernel::ports::{ScriptFault, Turn};

use crate::frame;
use crate::limits::Limits;
use crate::message::{self, Answer, Hello, Order, PROTOCOL, Reply};
use crate::worker::pipe::Orders;
use crate::worker::session::Session;

pub(crate) use isolation::SCRIPT_STACK_BYTES;
pub use isolation::{Isolation, Layer, RequiredIsolation};

const EXIT_NOT_STARTED_BY_A_HOST: u8 = 64;
/// It could not begin, or its thread panicked.
const EXIT_FAILED: u8 = 70;
const EXIT_PROTOCOL: u8 = 76;

/// Stripped once before the first order, so that the pages of the parser are in memory when a script needs them.
const REHEARSAL: &str = "const ready: boolean = true; return { ready } as object;";

/// The whole life of a child. The program that [`ChildOptions`](crate::ChildOptions) names calls this before it opens a
/// file or starts a thread, and exits with the result. The host adds the limits as the last argument.
pub fn worker_main() -> ExitCode {
    // Only the message: a backtrace needs files, which are out of reach by then.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let limits: Option<Limits> = std::env::args_os()
        .next_back()
        .and_then(|last| last.into_string().ok())
        .and_then(|last| serde_json::from_str(&last).ok());
    let Some(limits) = limits else {
        eprintln!("a gateway starts this to run one script; the last argument is the script's limits");
        return ExitCode::from(EXIT_NOT_STARTED_BY_A_HOST);
    };
    // The first read of a clock looks up the vDSO with system calls that are forbidden later.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let isolation = isolation::isolate(&limits, None);
    // A stack of a known size, whatever the parent's limits were.
    let script = std::thread::Builder::new()
        .name("script".to_owned())
        .stack_size(SCRIPT_STACK_BYTES)
        .spawn(move || run(isolation, &limits));
    match script.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic's message was printed.
        Ok(Err(_)) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            eprintln!("no thread for the script: {error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Isolates the calling process as a child does, irrevocably, and returns what it achieved. For tests of what is still
/// possible then; `left_out` names layers to leave out.
#[doc(hidden)]
pub fn isolate_but(limits: &Limits, left_out: Option<&str>) -> Isolation {
    let mut isolation = isolation::isolate(limits, left_out);
    if !left_out.is_some_and(|left_out| left_out.contains("seccomp")) {
        isolation::forbid_the_rest(&mut isolation);
    }
    isolation
}

fn run(mut isolation: Isolation, limits: &Limits) -> ExitCode {
    isolation::forbid_the_rest(&mut isolation);
    match serve(isolation, limits) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed { code, cause }) => {
            eprintln!("{cause}");
            ExitCode::from(code)
        }
    }
}

/// Why a child ended before its script.
struct Failed {
    code: u8,
    cause: String,
}

fn serve(isolation: Isolation, limits: &Limits) -> Result<(), Failed> {
    let failed = |cause: String| Failed { code: EXIT_FAILED, cause };
    let mut session = Session::new(limits.clone()).map_err(|fault| failed(fault.to_string()))?;
    drop(session.execute(Order::Strip { source: REHEARSAL.to_owned() }));
    let mut out = Vec::new();
    frame::append(&mut out, &Hello { protocol: PROTOCOL, isolation })
        .map_err(|fault| failed(fault.to_string()))?;
    pipe::write(&mut out).map_err(|errno| failed(errno.to_string()))?;
    let mut orders = Orders::default();
    while let Some(order) = orders.next().map_err(|cause| Failed { code: EXIT_PROTOCOL, cause })? {
        if reply(&mut out, session.execute(order), limits).map_err(failed)? == After::End {
            break;
        }
    }
    // The process ends, so the engine's memory need not be freed piece by piece.
    std::mem::forget(session);
    Ok(())
}

#[derive(PartialEq, Eq)]
enum After {
    Wait,
    /// The script has ended, by itself or by force.
    End,
}

/// Writes the answer to an order, in as many frames as it takes.
fn reply(out: &mut Vec<u8>, answer: Result<Answer, ScriptFault>, limits: &Limits) -> Result<After, String> {
    let ended = !matches!(&answer, Ok(Answer::Stripped(_) | Answer::Turn(Turn { end: None, .. })));
    let replies = match answer {
        Ok(Answer::Stripped(stripped)) => vec![Reply::Stripped(stripped)],
        // A turn counts towards the script's memory; a larger one does not leave this process.
        Ok(Answer::Turn(turn)) if message::turn_bytes(&turn) > limits.memory_bytes => {
            return reply(out, Err(limits.out_of_memory()), limits);
        }
        Ok(Answer::Turn(turn)) => message::parts(turn).into_iter().map(Reply::Part).collect(),
        Err(fault) => vec![Reply::Fault(fault)],
    };
    for one in replies {
        if frame::append(out, &one).is_err() {
            // Only a text without a bound of its own can be too long for a frame; it ends the script.
            return reply(out, Err(ScriptFault::ValueTooLarge { bound: limits.value_bytes }), limits);
        }
        pipe::write(out).map_err(|errno| errno.to_string())?;
    }
    Ok(if ended { After::End } else { After::Wait })
}
