//! The VM of one script, in QuickJS.
//!
//! It is driven in turns and decides nothing. Promise: the same program, given the same completions, makes the same
//! requests and ends the same way, however the completions are split into turns; a script cannot read the clock or
//! anything about the machine. `eval` and `Function` stay: their code runs in the same VM, which can reach nothing.
//!
//! QuickJS does not call its interrupt handler inside some of its own functions, so the host watches the process from
//! outside and kills it.

mod display;
mod host;
mod meter;
mod outcome;
mod positions;
mod randomness;
mod values;

use std::rc::Rc;

use countersign_core::event::CallOutcome;
use countersign_kernel::ports::{Completion, Program, ScriptEnd, ScriptFault, Stripped, Turn};
use countersign_sdk::LogLevel;
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Function, Object, Persistent, Promise, Runtime, Value};

use crate::limits::Limits;
use host::Host;
use positions::{Lines, SCRIPT};
use randomness::Randomness;

/// The engine's stack. Threads of the standard library have 2 MiB; the frames of the host's own functions need the rest.
const STACK_BYTES: usize = 512 * 1024;

/// The text around a script, which makes it the body of an async function. `positions` counts its lines.
const OPEN: &str = "(async function () {\n";
const CLOSE: &str = "\n})";

/// The built-in objects. Weak references are left out because they show when memory is collected; so are clocks.
type Intrinsics = (
    intrinsic::Eval,
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// One script's VM.
pub(crate) struct Engine {
    host: Rc<Host>,
    stripped: Option<Rc<Stripped>>,
    /// None once the script has ended.
    script: Option<ScriptRuntime>,
}

impl Engine {
    /// A fresh VM in which nothing runs yet: it can be made ahead of its script.
    pub(crate) fn new(limits: &Limits) -> Result<Self, ScriptFault> {
        let host = Rc::new(Host::new(limits));
        let script = ScriptRuntime::new(&host).map_err(|error| unavailable(&error))?;
        Ok(Self { host, stripped: None, script: Some(script) })
    }

    /// Starts the script and lets it run until it can only wait.
    pub(crate) fn start(&mut self, program: &Program) -> Result<Turn, ScriptFault> {
        if self.stripped.is_some() {
            return Err(crashed("the VM was started a second time"));
        }
        let stripped = Rc::new(program.stripped.clone());
        self.host.source_lines.get_or_init(|| Lines::of(&stripped));
        self.stripped = Some(stripped);
        self.host.now.set(program.now.as_millis());
        *self.host.randomness.borrow_mut() = Randomness::new(program.seed);
        self.host.meter.start();
        self.turn(|script, stripped| script.start(stripped))
    }

    /// Delivers completions one by one, and lets the script run until it can only wait. Completions after its end are
    /// ignored.
    pub(crate) fn deliver(&mut self, completions: &[Completion]) -> Result<Turn, ScriptFault> {
        self.turn(|script, _| completions.iter().try_for_each(|completion| script.complete(completion)))
    }

    fn turn(
        &mut self,
        work: impl FnOnce(&mut ScriptRuntime, &Stripped) -> Result<(), ScriptFault>,
    ) -> Result<Turn, ScriptFault> {
        let Some(stripped) = &self.stripped else { return Err(crashed("the VM was not started")) };
        let Some(script) = &mut self.script else { return Err(crashed("the script has ended")) };
        let result = work(script, stripped).and_then(|()| script.end(stripped));
        // A stopped script stays stopped, even if it caught the exception.
        let result = match self.host.meter.fault() {
            Some(fault) => Err(fault),
            None => result,
        };
        if !matches!(result, Ok(None)) {
            self.script = None;
        }
        let end = result?;
        Ok(Turn { requests: self.host.take_requests(), logs: self.host.take_logs(), end })
    }
}

/// Fields are dropped in this order: QuickJS aborts the process if values outlive the runtime.
struct ScriptRuntime {
    main: Option<Persistent<Promise<'static>>>,
    prelude: Prelude,
    host: Rc<Host>,
    context: Context,
    runtime: Runtime,
}

/// The functions that the prelude gives to the host.
struct Prelude {
    settle: Persistent<Function<'static>>,
    fail: Persistent<Function<'static>>,
    code_of: Persistent<Function<'static>>,
    message_of: Persistent<Function<'static>>,
}

impl ScriptRuntime {
    fn new(host: &Rc<Host>) -> rquickjs::Result<Self> {
        let runtime = Runtime::new()?;
        runtime.set_memory_limit(host.limits.memory_bytes);
        runtime.set_max_stack_size(STACK_BYTES);
        let at = Rc::clone(host);
        runtime.set_interrupt_handler(Some(Box::new(move || at.meter.must_stop())));
        let context = Context::custom::<Intrinsics>(&runtime)?;
        let prelude = context.with(|ctx| Prelude::install(&ctx, host))?;
        Ok(Self { main: None, prelude, host: Rc::clone(host), context, runtime })
    }

    fn start(&mut self, stripped: &Stripped) -> Result<(), ScriptFault> {
        let source = format!("{OPEN}{}{CLOSE}", stripped.code);
        let main = self.context.with(|ctx| {
            let function: rquickjs::Result<Function<'_>> = ctx.eval_with_options(source, options(SCRIPT));
            let function = match function {
                Ok(function) => function,
                Err(_) => return Err(outcome::unparsed(&ctx, &self.host, stripped)),
            };
            match function.call::<_, Promise<'_>>(()) {
                Ok(promise) => Ok(Persistent::save(&ctx, promise)),
                Err(_) => Err(outcome::stopped(&ctx, &self.host)),
            }
        })?;
        self.main = Some(main);
        self.drain()
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), ScriptFault> {
        if !self.host.complete(completion.request) {
            return Err(ScriptFault::NotAsked { request: completion.request });
        }
        if self.state() != PromiseState::Pending {
            return Ok(());
        }
        self.host.now.set(completion.at.as_millis());
        self.context.with(|ctx| {
            let settled = self.prelude.settle(&ctx, completion);
            settled.map_err(|_| outcome::stopped(&ctx, &self.host))
        })?;
        self.drain()
    }

    /// Runs the job queue dry, or until the script has ended.
    fn drain(&self) -> Result<(), ScriptFault> {
        /// Reading the clock takes longer than most jobs.
        const JOBS_BETWEEN_LOOKS: u32 = 64;
        let mut jobs = 0_u32;
        while self.state() == PromiseState::Pending {
            match self.runtime.execute_pending_job() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => self.job_threw()?,
            }
            jobs = jobs.wrapping_add(1);
            if jobs.is_multiple_of(JOBS_BETWEEN_LOOKS) && self.host.meter.must_stop() {
                break;
            }
        }
        self.host.meter.fault().map_or(Ok(()), Err)
    }

    /// Nothing catches what a job throws: a microtask's exception is logged, lack of memory ends the script.
    fn job_threw(&self) -> Result<(), ScriptFault> {
        self.context.with(|ctx| {
            let stop = |_| outcome::stopped(&ctx, &self.host);
            let value = ctx.catch();
            if value.is_uncatchable_error() || display::is_out_of_memory(&ctx, &value).map_err(stop)? {
                ctx.throw(value);
                return Err(outcome::stopped(&ctx, &self.host));
            }
            let shown = display::thrown(&ctx, value, display::MAX_LINE_BYTES).map_err(stop)?;
            self.host.log(LogLevel::Error, format!("uncaught in a microtask: {shown}"));
            Ok(())
        })
    }

    fn end(&self, stripped: &Stripped) -> Result<Option<ScriptEnd>, ScriptFault> {
        let Some(main) = self.main.clone() else { return Ok(None) };
        self.context.with(|ctx| {
            let main = main.restore(&ctx).map_err(|error| crashed(&error.to_string()))?;
            match main.result::<Value<'_>>() {
                None if self.host.awaits_nothing() => Ok(Some(outcome::stuck())),
                None => Ok(None),
                Some(Ok(value)) => outcome::returned(&ctx, &self.host, value).map(Some),
                Some(Err(_)) => {
                    let reason = ctx.catch();
                    outcome::threw(&ctx, &self.host, &self.prelude, reason, stripped).map(Some)
                }
            }
        })
    }

    fn state(&self) -> PromiseState {
        let Some(main) = self.main.clone() else { return PromiseState::Pending };
        self.context.with(|ctx| main.restore(&ctx).map_or(PromiseState::Pending, |main| main.state()))
    }
}

impl Prelude {
    fn install(ctx: &Ctx<'_>, host: &Rc<Host>) -> rquickjs::Result<Self> {
        let make: Function<'_> = ctx.eval_with_options(include_str!("prelude.js"), options("countersign"))?;
        let made: Object<'_> = make.call((host::functions(ctx, host)?,))?;
        let function =
            |name: &str| Ok::<_, rquickjs::Error>(Persistent::save(ctx, made.get::<_, Function<'_>>(name)?));
        Ok(Self {
            settle: function("settle")?,
            fail: function("fail")?,
            code_of: function("codeOf")?,
            message_of: function("messageOf")?,
        })
    }

    fn settle(&self, ctx: &Ctx<'_>, completion: &Completion) -> rquickjs::Result<()> {
        match &completion.outcome {
            CallOutcome::Succeeded(value) => {
                let value = ctx.json_parse(value.as_str())?;
                self.settle.clone().restore(ctx)?.call((completion.request, value))
            }
            CallOutcome::Failed(failure) => {
                let said = (completion.request, failure.code.as_str(), failure.message.as_str());
                self.fail.clone().restore(ctx)?.call(said)
            }
        }
    }

    /// Code and message of an error that the host made.
    fn brand<'js>(&self, ctx: &Ctx<'js>, reason: &Value<'js>) -> rquickjs::Result<Option<(String, String)>> {
        let code: Option<String> = self.code_of.clone().restore(ctx)?.call((reason.clone(),))?;
        let message: Option<String> = self.message_of.clone().restore(ctx)?.call((reason.clone(),))?;
        Ok(code.zip(message))
    }
}

fn options(filename: &str) -> EvalOptions {
    let mut options = EvalOptions::default();
    options.strict = true;
    options.filename = Some(filename.to_owned());
    options
}

fn crashed(cause: &str) -> ScriptFault {
    ScriptFault::Crashed { cause: cause.to_owned() }
}

fn unavailable(error: &rquickjs::Error) -> ScriptFault {
    ScriptFault::Unavailable { cause: format!("the engine could not be made: {error}") }
}

#[cfg(test)]
mod tests;
