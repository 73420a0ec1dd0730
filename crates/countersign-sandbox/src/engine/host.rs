//! The host's state for a script, and the functions that the prelude calls.
//!
//! Promise: a request is recorded here completely before the script continues, and the script cannot change it afterwards.
//! No `RefCell` here is borrowed while script code runs.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use countersign_kernel::LogLine;
use countersign_kernel::ports::{Request, ScriptFault, Wanted};
use countersign_sdk::{LogLevel, MAX_PATH_BYTES};
use rquickjs::{Array, Ctx, Function, Object, Value};

use super::display::{self, MAX_LINE_BYTES};
use super::meter::Meter;
use super::positions::Lines;
use super::randomness::Randomness;
use super::values::{self, Refusal};
use crate::limits::Limits;

/// The longest sleep: a day.
const MAX_SLEEP_MS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
/// The most lines one script may log.
const MAX_LINES: u32 = 1_000;
/// The prelude gets this instead of a number when a request is refused.
const REFUSED: i32 = -1;

pub(super) struct Host {
    pub(super) limits: Limits,
    pub(super) meter: Meter,
    pub(super) now: Cell<u64>,
    pub(super) randomness: RefCell<Randomness>,
    requests: RefCell<Vec<Request>>,
    logs: RefCell<Vec<LogLine>>,
    outstanding: RefCell<HashSet<u32>>,
    issued: Cell<u32>,
    lines: Cell<u32>,
    /// Bytes of arguments since the last completion. They count as the script's memory, though it no longer holds them.
    held_bytes: Cell<usize>,
    refusal: RefCell<Option<Refusal>>,
    /// Set when the script starts.
    pub(super) source_lines: OnceCell<Lines>,
}

impl Host {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: limits.clone(),
            meter: Meter::new(limits),
            now: Cell::default(),
            randomness: RefCell::new(Randomness::new([0; 32])),
            requests: RefCell::default(),
            logs: RefCell::default(),
            outstanding: RefCell::default(),
            issued: Cell::default(),
            lines: Cell::default(),
            held_bytes: Cell::default(),
            refusal: RefCell::default(),
            source_lines: OnceCell::new(),
        }
    }

    /// Marks a request as completed; false if it was not outstanding.
    pub(super) fn complete(&self, request: u32) -> bool {
        self.held_bytes.set(0);
        self.outstanding.borrow_mut().remove(&request)
    }

    /// Whether no completion can come any more.
    pub(super) fn awaits_nothing(&self) -> bool {
        self.outstanding.borrow().is_empty()
    }

    pub(super) fn take_requests(&self) -> Vec<Request> {
        self.requests.take()
    }

    pub(super) fn take_logs(&self) -> Vec<LogLine> {
        self.logs.take()
    }

    pub(super) fn log(&self, level: LogLevel, message: String) {
        let lines = self.lines.get();
        self.lines.set(lines.saturating_add(1));
        let line = match lines {
            0..MAX_LINES => LogLine { level, message },
            MAX_LINES => LogLine {
                level: LogLevel::Warn,
                message: format!("more than {MAX_LINES} lines were logged; the rest is dropped"),
            },
            _ => return,
        };
        self.logs.borrow_mut().push(line);
    }

    fn request(&self, wanted: Wanted, line: Option<u32>, bytes: usize) -> i32 {
        let no = self.issued.get();
        if no >= self.limits.calls {
            self.meter.stop(ScriptFault::TooManyCalls { bound: self.limits.calls });
            return self.refuse(Refusal::input("the script made too many calls"));
        }
        let held = self.held_bytes.get().saturating_add(bytes);
        if held > self.limits.memory_bytes {
            self.meter.stop(self.limits.out_of_memory());
            return self.refuse(Refusal::input("the script's calls hold too much memory"));
        }
        self.held_bytes.set(held);
        self.issued.set(no + 1);
        self.outstanding.borrow_mut().insert(no);
        self.requests.borrow_mut().push(Request { no, line, wanted });
        i32::try_from(no).unwrap_or(i32::MAX)
    }

    fn refuse(&self, refusal: Refusal) -> i32 {
        *self.refusal.borrow_mut() = Some(refusal);
        REFUSED
    }

    fn call<'js>(
        &self,
        ctx: &Ctx<'js>,
        path: &Value<'js>,
        args: Value<'js>,
        stack: &Value<'js>,
    ) -> rquickjs::Result<i32> {
        // The engine asks the meter only once in thousands of steps, and this step can be long.
        if self.meter.must_stop() {
            return Ok(self.refuse(Refusal::input("the script is being stopped")));
        }
        let path = match values::path(path) {
            Ok(path) => path,
            Err(refusal) => return Ok(self.refuse(refusal)),
        };
        Ok(match values::arguments(ctx, args, &self.limits)? {
            Ok(args) => {
                let bytes = path.len() + args.as_str().len();
                let line = self.line(ctx, stack)?;
                self.request(Wanted::Call { path, args }, line, bytes)
            }
            Err(refusal) => self.refuse(refusal),
        })
    }

    /// The source line of a stack trace.
    fn line(&self, ctx: &Ctx<'_>, stack: &Value<'_>) -> rquickjs::Result<Option<u32>> {
        let (Some(stack), Some(lines)) = (stack.as_string(), self.source_lines.get()) else {
            return Ok(None);
        };
        let stack = display::swallow_exception(ctx, stack.to_string())?;
        Ok(stack.and_then(|stack| lines.line(&stack)))
    }

    fn sleep(&self, ms: &Value<'_>) -> i32 {
        match ms.as_number() {
            Some(ms) if (0.0..=MAX_SLEEP_MS).contains(&ms) => {
                self.request(Wanted::Sleep { ms: ms.ceil() as u64 }, None, 0)
            }
            Some(ms) => self.refuse(Refusal::input(format!(
                "sleep takes a number of milliseconds from 0 to {MAX_SLEEP_MS} (a day); it was given {ms}"
            ))),
            None => self.refuse(Refusal::input(format!(
                "sleep takes a number of milliseconds; it was given {}",
                ms.type_of()
            ))),
        }
    }
}

/// The functions that only the prelude gets.
pub(super) fn functions<'js>(ctx: &Ctx<'js>, host: &Rc<Host>) -> rquickjs::Result<Object<'js>> {
    let object = Object::new(ctx.clone())?;
    object.set("longestPath", MAX_PATH_BYTES)?;
    add_request_functions(ctx, host, &object)?;
    add_state_functions(ctx, host, &object)?;
    Ok(object)
}

fn add_request_functions<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, object: &Object<'js>) -> rquickjs::Result<()> {
    let new = |at: &Rc<Host>| Rc::clone(at);
    let at = new(host);
    let call = move |ctx: Ctx<'js>, path: Value<'js>, args: Value<'js>, stack: Value<'js>| {
        at.call(&ctx, &path, args, &stack)
    };
    object.set("call", Function::new(ctx.clone(), call)?)?;
    let at = new(host);
    object.set("nap", Function::new(ctx.clone(), move |ms: Value<'js>| at.sleep(&ms))?)?;
    let at = new(host);
    let code = move || at.refusal.borrow().as_ref().map(|refusal| refusal.code);
    object.set("refusedCode", Function::new(ctx.clone(), code)?)?;
    let at = new(host);
    let message = move || at.refusal.take().map(|refusal| refusal.message);
    object.set("refusedMessage", Function::new(ctx.clone(), message)?)?;
    let at = new(host);
    let log = move |ctx: Ctx<'js>, level: u32, args: Array<'js>| -> rquickjs::Result<()> {
        // Beyond the bound the arguments are not even formatted.
        let message = if at.lines.get() < MAX_LINES {
            display::line(&ctx, &args, MAX_LINE_BYTES)?
        } else {
            String::new()
        };
        at.log(level_of(level), message);
        Ok(())
    };
    object.set("log", Function::new(ctx.clone(), log)?)
}

fn add_state_functions<'js>(ctx: &Ctx<'js>, host: &Rc<Host>, object: &Object<'js>) -> rquickjs::Result<()> {
    let at = Rc::clone(host);
    object.set("now", Function::new(ctx.clone(), move || at.now.get() as f64)?)?;
    let at = Rc::clone(host);
    object.set("random", Function::new(ctx.clone(), move || at.randomness.borrow_mut().fraction())?)?;
    let at = Rc::clone(host);
    object.set("bits", Function::new(ctx.clone(), move || at.randomness.borrow_mut().bits())?)?;
    let at = Rc::clone(host);
    object.set("uuid", Function::new(ctx.clone(), move || at.randomness.borrow_mut().uuid())?)?;
    object.set("zoned", Function::new(ctx.clone(), |text: String| with_zone(&text))?)
}

fn level_of(number: u32) -> LogLevel {
    match number {
        0 => LogLevel::Debug,
        1 => LogLevel::Info,
        2 => LogLevel::Warn,
        _ => LogLevel::Error,
    }
}

/// A date's text, with the zone UTC where it names none: the engine would take the machine's.
fn with_zone(text: &str) -> String {
    let upper = text.trim_end().to_ascii_uppercase();
    let after_hour = upper.split_once(':').map_or("", |(_, rest)| rest);
    let only_date =
        after_hour.is_empty() && upper.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'+');
    let named = upper.ends_with(['Z', ')'])
        || ["GMT", "UTC", "ST", "DT"].iter().any(|zone| upper.contains(zone))
        || after_hour.contains(['+', '-']);
    let iso = upper.split_once('T').is_some_and(|(date, _)| date.ends_with(|c: char| c.is_ascii_digit()));
    match () {
        () if upper.is_empty() || only_date || named => text.to_owned(),
        () if iso => format!("{}Z", text.trim_end()),
        () => format!("{} GMT", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_without_a_zone_gets_utc_and_one_with_a_zone_keeps_it() {
        for (given, made) in [
            ("2026-11-15", "2026-11-15"),
            ("2026-11-15T10:00", "2026-11-15T10:00Z"),
            ("2026-11-15T10:00:00.5Z", "2026-11-15T10:00:00.5Z"),
            ("2026-11-15T10:00:00+02:00", "2026-11-15T10:00:00+02:00"),
            ("2026-11-15T10:00:00-02:00", "2026-11-15T10:00:00-02:00"),
            ("2026-11-15 10:00", "2026-11-15 10:00 GMT"),
            ("Nov 15 2026 10:00", "Nov 15 2026 10:00 GMT"),
            ("Nov 15 2026", "Nov 15 2026 GMT"),
            ("Sun, 15 Nov 2026 10:00:00 GMT", "Sun, 15 Nov 2026 10:00:00 GMT"),
            ("", ""),
        ] {
            assert_eq!(with_zone(given), made);
        }
    }
}
