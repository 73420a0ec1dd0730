//! How a script ended, translated from the engine to the port.
//!
//! Promise: only errors that the host made carry a failed call's code, whatever a script throws; every message is bounded
//! and names the position, if that is known.

use countersign_core::bounds::MAX_TEXT_BYTES;
use countersign_core::event::Failure;
use countersign_kernel::ports::{ScriptEnd, ScriptFault, Stripped};
use rquickjs::{Ctx, Value};

use super::host::Host;
use super::positions::{self, SourcePosition};
use super::{Prelude, crashed, display, values};

const SCRIPT_ERROR: &str = "script_error";
/// The position needs room after the message.
const MAX_MESSAGE_BYTES: usize = MAX_TEXT_BYTES - 64;

/// The script returned.
pub(super) fn returned<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    value: Value<'js>,
) -> Result<ScriptEnd, ScriptFault> {
    match values::returned(ctx, value, &host.limits) {
        Ok(Ok(value)) => Ok(ScriptEnd::Returned(value)),
        Ok(Err(refusal)) => Ok(ScriptEnd::Threw(Failure::new(refusal.code, refusal.message))),
        Err(_) => Err(stopped(ctx, host)),
    }
}

/// The script threw something and did not catch it.
pub(super) fn threw<'js>(
    ctx: &Ctx<'js>,
    host: &Host,
    prelude: &Prelude,
    reason: Value<'js>,
    stripped: &Stripped,
) -> Result<ScriptEnd, ScriptFault> {
    failure(ctx, prelude, reason, stripped).map(ScriptEnd::Threw).map_err(|error| match error {
        Interrupted::OutOfMemory => host.limits.out_of_memory(),
        Interrupted::Stopped => stopped(ctx, host),
    })
}

/// The script waits for a promise that only it could settle, and nothing of it will ever run again.
pub(super) fn stuck() -> ScriptEnd {
    let message = "the script waits for a promise that nothing will ever settle";
    ScriptEnd::Threw(Failure::new("script_stuck", message))
}

/// The engine does not take the code, though the stripper did.
pub(super) fn unparsed(ctx: &Ctx<'_>, host: &Host, stripped: &Stripped) -> ScriptFault {
    if let Some(fault) = host.meter.fault() {
        return fault;
    }
    let error = ctx.catch();
    if display::is_out_of_memory(ctx, &error).unwrap_or_default() {
        return host.limits.out_of_memory();
    }
    let position = position(ctx, &error, stripped).unwrap_or_default();
    let message = display::thrown(ctx, error, MAX_MESSAGE_BYTES);
    let SourcePosition { line, column } = position.unwrap_or(SourcePosition { line: 1, column: 1 });
    ScriptFault::Invalid { message: message.unwrap_or_else(|_| "it does not parse".to_owned()), line, column }
}

/// The engine stopped, and not because the script threw something that it could have caught.
pub(super) fn stopped(ctx: &Ctx<'_>, host: &Host) -> ScriptFault {
    if let Some(fault) = host.meter.fault() {
        return fault;
    }
    let error = ctx.catch();
    match display::is_out_of_memory(ctx, &error) {
        Ok(true) => host.limits.out_of_memory(),
        _ => {
            let shown = display::thrown(ctx, error, MAX_MESSAGE_BYTES);
            crashed(&format!("the engine failed: {}", shown.unwrap_or_default()))
        }
    }
}

enum Interrupted {
    OutOfMemory,
    Stopped,
}

impl From<rquickjs::Error> for Interrupted {
    fn from(_: rquickjs::Error) -> Self {
        Self::Stopped
    }
}

fn failure<'js>(
    ctx: &Ctx<'js>,
    prelude: &Prelude,
    reason: Value<'js>,
    stripped: &Stripped,
) -> Result<Failure, Interrupted> {
    let brand = display::swallow_exception(ctx, prelude.brand(ctx, &reason))?.flatten();
    // QuickJS throws `null` when it has no memory for an error. A script that throws `null` itself contains this text.
    let own_null = reason.is_null() && stripped.code.contains("throw null");
    if brand.is_none() && !own_null && display::is_out_of_memory(ctx, &reason)? {
        return Err(Interrupted::OutOfMemory);
    }
    let position = position(ctx, &reason, stripped)?;
    let (code, message) = match brand {
        Some((code, message)) => (code, message),
        None => (SCRIPT_ERROR.to_owned(), display::thrown(ctx, reason, MAX_MESSAGE_BYTES)?),
    };
    let message = match position {
        Some(SourcePosition { line, column }) => format!("{message} (line {line}, column {column})"),
        None => message,
    };
    Ok(Failure::new(code, message))
}

/// Where an error was made. Its stack is read as the script left it.
fn position<'js>(
    ctx: &Ctx<'js>,
    error: &Value<'js>,
    stripped: &Stripped,
) -> rquickjs::Result<Option<SourcePosition>> {
    let Some(error) = error.as_object().filter(|object| object.is_error()) else { return Ok(None) };
    let stack = display::field(ctx, error, "stack")?;
    Ok(stack.and_then(|stack| positions::source_position(&stack, stripped)))
}
