//! The child: a process that runs one script, for a host that does not trust it.
//!
//! Promise: before it reads anything it has given up files, network, other processes and every system call it does not
//! need ([`Isolation`]). It runs one script and ends with it; it ends when its input does.

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

use crate::frame;
use crate::limits::Limits;
use crate::message::{Hello, Order, PROTOCOL, Reply};
use crate::worker::pipe::{Orders, answer};
use crate::worker::session::{After, Session};

pub(crate) use isolation::SCRIPT_STACK_BYTES;
pub use isolation::{Isolation, Layer, RequiredIsolation};

/// It was not started by a host.
const EXIT_NOT_STARTED_BY_A_HOST: u8 = 64;
/// It could not begin, or its thread panicked.
const EXIT_FAILED: u8 = 70;
/// Its host said what no host says.
const EXIT_MISLED: u8 = 76;

/// The whole life of a child: the program that [`ChildOptions`](crate::ChildOptions) names calls this first of all, with nothing
/// opened and no thread started, and returns what it returns. The limits are the last argument; the host adds it.
pub fn worker_main() -> ExitCode {
    // The message is all that is wanted; a backtrace would take files that are out of reach by then.
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    let limits: Option<Limits> = std::env::args_os()
        .next_back()
        .and_then(|last| last.into_string().ok())
        .and_then(|last| serde_json::from_str(&last).ok());
    let Some(limits) = limits else {
        eprintln!(
            "this runs one script for a gateway, which starts it; its last argument is the script's limits"
        );
        return ExitCode::from(EXIT_NOT_STARTED_BY_A_HOST);
    };
    // The first look at a clock finds the page where the kernel keeps it, by calls that are out of reach later.
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let isolation = isolation::enclose(&limits);
    // A stack of a known size, whatever the parent's limits were.
    let script = std::thread::Builder::new()
        .name("script".to_owned())
        .stack_size(SCRIPT_STACK_BYTES)
        .spawn(move || run(isolation, limits));
    match script.map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // It has said why.
        Ok(Err(_)) => ExitCode::from(EXIT_FAILED),
        Err(error) => {
            eprintln!("no thread for the script: {error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

/// Isolates the calling process as a child does, and answers how far it came. There is no way back. For tests, which look at
/// what is still possible then; `left_out` names the layers whose absence they want to see.
#[doc(hidden)]
pub fn isolate_but(limits: &Limits, left_out: Option<&str>) -> Isolation {
    let mut isolation = isolation::enclose_but(limits, left_out);
    if !left_out.is_some_and(|left_out| left_out.contains("seccomp")) {
        isolation::seal(&mut isolation);
    }
    isolation
}

fn run(mut isolation: Isolation, limits: Limits) -> ExitCode {
    isolation::seal(&mut isolation);
    match serve(isolation, limits) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Misled { code, cause }) => {
            eprintln!("{cause}");
            ExitCode::from(code)
        }
    }
}

/// Why a child ended before its script.
struct Misled {
    code: u8,
    cause: String,
}

fn serve(isolation: Isolation, limits: Limits) -> Result<(), Misled> {
    let failed = |cause: String| Misled { code: EXIT_FAILED, cause };
    let value_bytes = limits.value_bytes;
    let mut session = Session::new(limits).map_err(|fault| failed(fault.to_string()))?;
    let mut out = Vec::new();
    frame::append(&mut out, &Hello { protocol: PROTOCOL, isolation })
        .map_err(|fault| failed(fault.to_string()))?;
    answer(&mut out).map_err(|errno| failed(errno.to_string()))?;
    let mut orders = Orders::default();
    while let Some(order) = orders.next().map_err(|cause| Misled { code: EXIT_MISLED, cause })? {
        let after = obey(&mut session, order, &mut out, value_bytes).map_err(failed)?;
        if after == After::End {
            break;
        }
    }
    // What the engine holds need not be torn down piece by piece: the process ends.
    std::mem::forget(session);
    Ok(())
}

fn obey(session: &mut Session, order: Order, out: &mut Vec<u8>, value_bytes: usize) -> Result<After, String> {
    let (replies, after) = session.obey(order);
    for reply in replies {
        if frame::append(out, &reply).is_err() {
            // Only a text that no bound holds can be too long for a frame; the script ends with it.
            let fault = countersign_kernel::ports::ScriptFault::ValueTooLarge { bound: value_bytes };
            frame::append(out, &Reply::Fault(fault)).map_err(|fault| fault.to_string())?;
            answer(out).map_err(|errno| errno.to_string())?;
            return Ok(After::End);
        }
        answer(out).map_err(|errno| errno.to_string())?;
    }
    Ok(after)
}
