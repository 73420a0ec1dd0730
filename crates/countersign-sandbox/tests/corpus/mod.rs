//! Scripts that mean harm, as a table: each with how it must end. It knows nothing of the crate, so that it can be run
//! in process and in the child alike.
//!
//! The host that runs it answers every call with its own arguments, except `no.way`, which fails with the code
//! `denied`. It gives a script 16 MiB and a fraction of a second.

/// One hostile script.
pub(crate) struct Hostile {
    /// What it tries.
    pub(crate) name: &'static str,
    /// The script.
    pub(crate) script: &'static str,
    /// How it must end.
    pub(crate) expect: Expect,
    /// The interrupt does not reach it: only a watchdog outside ends it.
    pub(crate) needs_kill: bool,
}

/// How a hostile script must end.
#[derive(Debug)]
pub(crate) enum Expect {
    /// With this code, be it a fault or an error that was not caught.
    Fails(&'static str),
    /// With this JSON.
    Returns(&'static str),
    /// In any way, but it ends, and the process lives. Where memory and time run a race, either may win.
    EndsSomehow,
}

// tidy: uniform table

use Expect::{EndsSomehow, Fails, Returns};

const fn hostile(name: &'static str, script: &'static str, expect: Expect) -> Hostile {
    Hostile { name, script, expect, needs_kill: false }
}

const fn unstoppable(name: &'static str, script: &'static str) -> Hostile {
    Hostile { name, script, expect: Fails("cpu_limit"), needs_kill: true }
}

/// The whole table.
pub(crate) fn all() -> impl Iterator<Item = &'static Hostile> {
    [WORLD, PROXY, ARGUMENTS, ERRORS, ENDLESS, GREEDY, DEEP, UNSTOPPABLE].into_iter().flatten()
}

/// Reaching out of the world, or into the host.
const WORLD: &[Hostile] = &[
    hostile(
        "the function constructor reaches nothing",
        "return Function('return typeof process + typeof require + typeof fetch + typeof setTimeout')()",
        Returns("\"undefinedundefinedundefinedundefined\""),
    ),
    hostile(
        "the constructor of a constructor is as poor",
        "return (async () => {}).constructor('return typeof host + typeof settle')()",
        Returns("\"undefinedundefined\""),
    ),
    hostile(
        "eval sees no host",
        "return eval('typeof host + typeof waiting + typeof made + typeof call')",
        Returns("\"undefinedundefinedundefinedundefined\""),
    ),
    hostile(
        "dynamic import from a text finds nothing",
        "try { await Function('return import(\"fs\")')(); return 'in' } catch { return 'out' }",
        Returns("\"out\""),
    ),
    hostile(
        "there are no threads, weak references, clocks",
        "return ['Atomics','SharedArrayBuffer','WeakRef','FinalizationRegistry','performance','std','os','Intl','gc']\
         .filter((n) => n in globalThis)",
        Returns("[]"),
    ),
    hostile(
        "the clock stands still while it computes",
        "const a = Date.now(); for (let i = 0; i < 1e5; i++); return [Date.now() - a, new Date() - a]",
        Returns("[0,0]"),
    ),
    hostile(
        "the real clock is not behind the constructor",
        "const C = new Date().constructor; const D = Object.getPrototypeOf(class extends Date {}); \
         return new C().getTime() === Date.now() && new D().getTime() === Date.now()",
        Returns("true"),
    ),
    hostile(
        "stack traces have no hook that shows the host's functions",
        "let seen = 0; Error.prepareStackTrace = (_, sites) => { seen++; return sites };\
         Object.defineProperty(Object.prototype, 'then', { get() { new Error().stack; return undefined }, configurable: true });\
         await tools.a.b({ x: 1 }); return seen",
        Returns("0"),
    ),
    hostile(
        "the limit of stack traces cannot run code",
        "Error.stackTraceLimit = { valueOf() { throw 1 } }; try { null.x } catch (e) { return e.name }",
        Returns("\"TypeError\""),
    ),
    hostile(
        "closing the wrapper gains nothing",
        "return eval('(function(){ return typeof arguments.callee })') instanceof Function",
        Returns("true"),
    ),
    hostile(
        "the global object may be emptied",
        "for (const k of Object.getOwnPropertyNames(globalThis)) { try { \
         delete globalThis[k] } catch {} } return 1",
        Returns("1"),
    ),
    hostile(
        "frozen everything still works",
        "const t = tools; Object.freeze(Object.prototype); Object.freeze(Function.prototype); \
         Object.freeze(Promise.prototype); return await t.a.b({ x: 1 })",
        Returns("{\"x\":1}"),
    ),
];

/// Bending the proxy.
const PROXY: &[Hostile] = &[
    hostile(
        "nothing can be listed",
        "return [Object.keys(tools), Reflect.ownKeys(tools.a), 'a' in tools]",
        Returns("[[],[],false]"),
    ),
    hostile("for in finds nothing", "let n = 0; for (const k in tools) n++; return n", Returns("0")),
    hostile(
        "it is no thenable",
        "const t = await tools; return [typeof t.then, typeof (await tools.a.b).then]",
        Returns("[\"undefined\",\"undefined\"]"),
    ),
    hostile("returning it does not hang", "return tools", Fails("invalid_output")),
    hostile(
        "as JSON it is nothing",
        "return [JSON.stringify(tools) === undefined, JSON.stringify({ tools })]",
        Returns("[true,\"{}\"]"),
    ),
    hostile(
        "as text it makes no call",
        "try { return `${tools.a}` } catch (e) { return e.name }",
        Returns("\"TypeError\""),
    ),
    hostile(
        "it has no prototype",
        "return Object.getPrototypeOf(tools.a) === null && !(tools instanceof Object)",
        Returns("true"),
    ),
    hostile(
        "it cannot be written",
        "try { tools.a = 1 } catch (e) { return e.code }",
        Returns("\"invalid_input\""),
    ),
    hostile(
        "it cannot be defined",
        "try { Object.defineProperty(tools, 'a', { value: 1 }) } catch (e) { return e.code }",
        Returns("\"invalid_input\""),
    ),
    hostile(
        "it cannot be deleted",
        "try { delete tools.a } catch (e) { return e.code }",
        Returns("\"invalid_input\""),
    ),
    hostile(
        "it cannot be frozen",
        "try { Object.freeze(tools) } catch (e) { return e.code }",
        Returns("\"invalid_input\""),
    ),
    hostile(
        "it cannot be given a prototype",
        "try { Object.setPrototypeOf(tools, {}) } catch (e) { return e.code }",
        Returns("\"invalid_input\""),
    ),
    hostile(
        "it is no constructor",
        "try { new tools.a.b({}) } catch (e) { return e.name }",
        Returns("\"TypeError\""),
    ),
    hostile(
        "a symbol is no path",
        "return typeof tools[Symbol.iterator] + typeof tools.a[Symbol('x')]",
        Returns("\"undefinedundefined\""),
    ),
    hostile(
        "polluted prototypes do not change what is sent",
        "for (const p of [Object.prototype, Function.prototype, Array.prototype]) for (const k of \
         ['path','call','apply','get','set','length','site','resolve','code','message','__proto__x','value','writable','0']) \
         try { Object.defineProperty(p, k, { get() { return 'evil' }, set() {}, configurable: true }) } catch {}\
         return await tools.a.b({ x: 1 })",
        Returns("{\"x\":1}"),
    ),
    hostile(
        "overridden builtins do not change what is sent",
        "const t = tools; JSON.stringify = () => '{\"x\":2}'; JSON.parse = () => 2; Array.isArray = () => false; \
         Object.keys = () => []; Reflect.apply = () => 0; Reflect.defineProperty = () => 0; Map.prototype.get = () => 0; \
         Map.prototype.set = () => 0; WeakMap.prototype.set = () => 0; String.prototype.slice = () => 'evil'; \
         Proxy = 0; Promise.prototype.then = function () {}; return await t.a.b({ x: 1 })",
        Returns("{\"x\":1}"),
    ),
    hostile(
        "another Promise does not get the host's hands",
        "const real = Promise; globalThis.Promise = class { constructor() { throw 1 } }; \
         const p = tools.a.b({ x: 1 }); return p instanceof real && await p",
        Returns("{\"x\":1}"),
    ),
    hostile(
        "the species of promises is not asked",
        "Object.defineProperty(Promise, Symbol.species, { get() { throw 1 } }); return await tools.a.b({ x: 1 })",
        Returns("{\"x\":1}"),
    ),
    hostile(
        "the iterator of arrays is not used",
        "Array.prototype[Symbol.iterator] = function* () { yield 'evil' }; console.log('a', 'b'); \
         new Date('2020-01-01'); return await tools.a.b({ x: 1 })",
        Returns("{\"x\":1}"),
    ),
    hostile(
        "a path has a bound",
        "let t = tools; for (let i = 0; i < 1000; i++) t = t.aaaaaaaaaa; return 1",
        Fails("invalid_input"),
    ),
    hostile(
        "wide characters do not stretch the path",
        "return await tools.a['\u{20ac}'.repeat(150)]({})",
        Fails("invalid_input"),
    ),
    hostile("half a character is no path", "return await tools.a['\\ud800']({})", Fails("invalid_input")),
    hostile("the root is no tool", "return await tools({})", Fails("invalid_input")),
    hostile("two arguments are refused", "return await tools.a.b({}, {})", Fails("invalid_input")),
    hostile(
        "borrowed call and apply make paths, not calls of the host",
        "return Reflect.apply(tools.a.b, { path: 'evil' }, [{ x: 1 }])",
        Returns("{\"x\":1}"),
    ),
];

/// Arguments and results that change, lie or cannot be.
const ARGUMENTS: &[Hostile] = &[
    hostile(
        "a getter is read once",
        "let n = 0; const r = await tools.a.b({ get x() { return ++n } }); return [r.x, n]",
        Returns("[1,1]"),
    ),
    hostile(
        "a change after the call comes too late",
        "const a = { x: 1, l: [1] }; const p = tools.a.b(a); a.x = 2; a.l.push(2); a.y = 3; return await p",
        Returns("{\"l\":[1],\"x\":1}"),
    ),
    hostile(
        "toJSON speaks once",
        "let n = 0; const r = await tools.a.b({ toJSON() { return { n: ++n } } }); return [r, n]",
        Returns("[{\"n\":1},1]"),
    ),
    hostile(
        "toJSON that calls a tool makes two honest calls",
        "const seen = []; await tools.a.b({ toJSON() { seen.push(tools.c.d({ y: 2 })); return { x: 1 } } }); \
         return await seen[0]",
        Returns("{\"y\":2}"),
    ),
    hostile(
        "a proxy as argument answers once",
        "let n = 0; const p = new Proxy({ x: 0 }, { get: (t, k) => (k === 'x' ? ++n : undefined) }); \
         return [(await tools.a.b(p)).x, n]",
        Returns("[1,1]"),
    ),
    hostile(
        "a getter that throws refuses the call",
        "return await tools.a.b({ get x() { throw new Error('no') } })",
        Fails("invalid_input"),
    ),
    hostile("a cycle is refused", "const a = {}; a.a = a; return await tools.a.b(a)", Fails("invalid_input")),
    hostile("a BigInt is refused", "return await tools.a.b({ n: 1n })", Fails("invalid_input")),
    hostile("undefined is refused", "return await tools.a.b(undefined)", Fails("invalid_input")),
    hostile("a function is refused", "return await tools.a.b(() => 1)", Fails("invalid_input")),
    hostile("a symbol is refused", "return await tools.a.b(Symbol('x'))", Fails("invalid_input")),
    hostile("NUL is refused", "return await tools.a.b({ s: 'a\\0b' })", Fails("invalid_input")),
    hostile(
        "half a character is refused",
        "return await tools.a.b({ s: '\\ud800' })",
        Fails("invalid_input"),
    ),
    hostile(
        "a number that would be rounded is refused",
        "return await tools.a.b({ n: 2 ** 53 })",
        Fails("invalid_input"),
    ),
    hostile(
        "too deep is refused",
        "let a = 1; for (let i = 0; i < 70; i++) a = [a]; return await tools.a.b(a)",
        Fails("value_too_deep"),
    ),
    hostile(
        "too large is refused",
        "return await tools.a.b({ s: 'x'.repeat(1100000) })",
        Fails("value_too_large"),
    ),
    hostile(
        "symbol keys are not sent",
        "return await tools.a.b({ [Symbol('x')]: 1, y: 2 })",
        Returns("{\"y\":2}"),
    ),
    hostile(
        "__proto__ is a key like any other",
        "const r = await tools.a.b(JSON.parse('{\"__proto__\":{\"admin\":true},\"x\":1}')); \
         return [r.admin === undefined, Object.keys(r)]",
        Returns("[true,[\"__proto__\",\"x\"]]"),
    ),
    hostile("a returned cycle is an error", "const a = {}; a.a = a; return a", Fails("invalid_output")),
    hostile("a returned BigInt is an error", "return 1n", Fails("invalid_output")),
    hostile("a returned giant is an error", "return 'x'.repeat(1100000)", Fails("value_too_large")),
    hostile(
        "a returned abyss is an error",
        "let a = 1; for (let i = 0; i < 70; i++) a = [a]; return a",
        Fails("value_too_deep"),
    ),
    hostile(
        "a returned toJSON that throws is an error",
        "return { toJSON() { throw 1 } }",
        Fails("invalid_output"),
    ),
    hostile("a thenable that never settles is named", "return { then() {} }", Fails("script_stuck")),
    hostile("a thenable that settles twice settles once", "return { then(f) { f(1); f(2) } }", Returns("1")),
];

/// What is thrown, forged, or shown.
const ERRORS: &[Hostile] = &[
    hostile("a denied call keeps its code", "await tools.no.way({})", Fails("denied")),
    hostile(
        "a denied call can be caught and read",
        "try { await tools.no.way({}) } catch (e) { return [e.name, e.code, e.path, e instanceof Error] }",
        Returns("[\"ToolError\",\"denied\",\"no.way\",true]"),
    ),
    hostile(
        "a thrown look-alike is the script's own",
        "throw { name: 'ToolError', code: 'denied', message: 'x' }",
        Fails("script_error"),
    ),
    hostile(
        "an error with a code is the script's own",
        "const e = new Error('x'); e.code = 'denied'; e.name = 'ToolError'; throw e",
        Fails("script_error"),
    ),
    hostile(
        "a copy of a host's error is the script's own",
        "try { await tools.no.way({}) } catch (e) { throw Object.assign(new Error(e.message), e) }",
        Fails("script_error"),
    ),
    hostile(
        "a heir of a host's error is the script's own",
        "try { await tools.no.way({}) } catch (e) { throw Object.create(e) }",
        Fails("script_error"),
    ),
    hostile(
        "a proxy of a host's error is the script's own",
        "try { await tools.no.way({}) } catch (e) { throw new Proxy(e, {}) }",
        Fails("script_error"),
    ),
    hostile(
        "a changed code does not count",
        "try { await tools.no.way({}) } catch (e) { e.code = 'approved'; throw e }",
        Fails("denied"),
    ),
    hostile(
        "getters of a thrown error may throw",
        "throw Object.defineProperties(new Error(), Object.fromEntries(['name','message','stack'].map((k) => \
         [k, { get() { throw new Error('again') } }])))",
        Fails("script_error"),
    ),
    hostile(
        "a getter of a thrown error may not run for ever",
        "throw Object.defineProperty(new Error(), 'message', { get() { for (;;); } })",
        Fails("cpu_limit"),
    ),
    hostile(
        "a thrown proxy of throwing traps is shown",
        "throw new Proxy({}, new Proxy({}, { get() { throw 1 } }))",
        Fails("script_error"),
    ),
    hostile(
        "a revoked proxy is shown",
        "const p = Proxy.revocable({}, {}); p.revoke(); throw p.proxy",
        Fails("script_error"),
    ),
    hostile("null may be thrown", "throw null", Fails("script_error")),
    hostile("undefined may be thrown", "throw undefined", Fails("script_error")),
    hostile("a symbol may be thrown", "throw Symbol('x')", Fails("script_error")),
    hostile("a giant text may be thrown", "throw 'x'.repeat(2000000)", Fails("script_error")),
    hostile("a cycle may be thrown", "const a = {}; a.a = [a]; throw a", Fails("script_error")),
    hostile(
        "a toString that throws is not asked",
        "throw { toString() { throw 1 }, toJSON() { throw 2 } }",
        Fails("script_error"),
    ),
    hostile(
        "logging never throws",
        "const c = {}; c.c = c; const p = Proxy.revocable({}, {}); p.revoke(); \
         console.log(c, p.proxy, { get x() { throw 1 } }, Symbol('x'), 1n, undefined, '\\ud800', tools, { toJSON() { throw 1 } }, \
         [,1], new Error('e'), () => 1, NaN, -0); return 1",
        Returns("1"),
    ),
    hostile(
        "logging does not run away",
        "console.log({ get x() { for (;;); } }); return 1",
        Fails("cpu_limit"),
    ),
    hostile(
        "logging recurses no further than the stack",
        "const o = { get x() { console.log(o); return 1 } }; console.log(o); return 1",
        EndsSomehow,
    ),
    hostile(
        "a flood of lines is dropped",
        "for (let i = 0; i < 20000; i++) console.log(i); return 1",
        Returns("1"),
    ),
];

/// Running for ever.
const ENDLESS: &[Hostile] = &[
    hostile("a loop", "for (;;);", Fails("cpu_limit")),
    hostile(
        "a loop that catches",
        "for (;;) { try { for (;;); } catch {} finally { continue } }",
        Fails("cpu_limit"),
    ),
    hostile(
        "endless microtasks",
        "const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})",
        Fails("cpu_limit"),
    ),
    hostile(
        "endless microtasks that hold on to each other",
        "const f = () => Promise.resolve().then(f); await f()",
        EndsSomehow,
    ),
    hostile(
        "endless queueMicrotask",
        "const f = () => queueMicrotask(f); f(); await new Promise(() => {})",
        Fails("cpu_limit"),
    ),
    hostile("endless awaits", "for (;;) await null", Fails("cpu_limit")),
    hostile(
        "an endless async generator",
        "async function* g() { for (;;) yield 1 } for await (const x of g());",
        Fails("cpu_limit"),
    ),
    hostile(
        "an endless generator",
        "function* g() { for (;;) yield 1 } for (const x of g());",
        Fails("cpu_limit"),
    ),
    hostile(
        "a thenable that resolves to itself again and again",
        "const t = { then(f) { f({ then: t.then }) } }; await t",
        Fails("cpu_limit"),
    ),
    hostile(
        "a catastrophic regular expression",
        "return /^(a+)+$/.test('a'.repeat(40) + 'b')",
        Fails("cpu_limit"),
    ),
    hostile("an endless toJSON", "return await tools.a.b({ toJSON() { for (;;); } })", Fails("cpu_limit")),
    hostile("an endless getter of the result", "return { get x() { for (;;); } }", Fails("cpu_limit")),
    hostile("an endless sort", "[3, 2, 1].sort(() => { for (;;); })", Fails("cpu_limit")),
    hostile(
        "an endless iterator in a destructuring",
        "const it = { [Symbol.iterator]: () => ({ next: () => ({ done: false }), return() { for (;;); } }) }; const [...a] = it",
        EndsSomehow,
    ),
    hostile("an endless replace", "'aaa'.replace(/a/g, () => { for (;;); })", Fails("cpu_limit")),
    hostile("an endless loop after a call", "await tools.a.b({}); for (;;);", Fails("cpu_limit")),
    hostile(
        "an endless finally of an async function",
        "async function f() { try { await tools.a.b({}) } finally { for (;;); } } await f()",
        Fails("cpu_limit"),
    ),
    hostile("calls without end", "for (;;) tools.a.b({})", Fails("too_many_calls")),
    hostile(
        "calls without end, caught",
        "for (;;) { try { await tools.a.b({}) } catch {} }",
        Fails("too_many_calls"),
    ),
    hostile("sleeps without end", "for (;;) sleep(0)", Fails("too_many_calls")),
    hostile("waiting for nothing", "await new Promise(() => {})", Fails("script_stuck")),
];

/// Taking all memory.
const GREEDY: &[Hostile] = &[
    hostile("an array without end", "const a = []; for (;;) a.push({})", EndsSomehow),
    hostile("a text without end", "let s = 'x'; for (;;) s += s", EndsSomehow),
    hostile("one giant text", "return 'x'.repeat(2 ** 29).length", EndsSomehow),
    hostile("one giant buffer", "return new ArrayBuffer(2 ** 32).byteLength", EndsSomehow),
    hostile("many buffers", "const a = []; for (;;) a.push(new Uint8Array(1 << 20))", Fails("out_of_memory")),
    hostile(
        "a flood of promises",
        "const a = []; for (;;) a.push(new Promise((f) => f()).then(() => 1))",
        EndsSomehow,
    ),
    hostile("a flood of closures", "let f = () => 1; for (;;) { const g = f; f = () => g }", EndsSomehow),
    hostile(
        "lack of memory may be caught",
        "try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)) } catch (e) { return 'caught' }",
        Returns("\"caught\""),
    ),
    hostile(
        "lack of memory, again and again",
        "for (let i = 0; i < 20; i++) try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)) } catch {} return 1",
        Returns("1"),
    ),
    hostile("a map without end", "const m = new Map(); for (let i = 0; ; i++) m.set(i, {})", EndsSomehow),
    hostile(
        "large arguments pile up",
        "const s = 'x'.repeat(1000000); for (;;) tools.a.b({ s })",
        EndsSomehow,
    ),
    hostile("a giant regular expression", "new RegExp('(a?){1000}'.repeat(1000)); return 1", EndsSomehow),
    hostile("a giant BigInt", "let n = 2n; for (;;) n = n * n", EndsSomehow),
    hostile(
        "a giant JSON",
        "const a = []; a.length = 1e6; return JSON.stringify(a.fill('x'.repeat(1000)))",
        EndsSomehow,
    ),
];

/// Going deep.
const DEEP: &[Hostile] = &[
    hostile(
        "recursion is an error that can be caught",
        "const f = () => f(); try { f() } catch (e) { return e instanceof Error }",
        Returns("true"),
    ),
    hostile(
        "async recursion",
        "const f = async () => { await f() }; try { await f() } catch { return 1 } return 1",
        EndsSomehow,
    ),
    hostile(
        "mutual recursion through natives",
        "const f = () => [1].map(f); try { f() } catch { return 1 }",
        Returns("1"),
    ),
    hostile(
        "recursion through getters",
        "const o = { get x() { return this.x } }; try { o.x } catch { return 1 }",
        Returns("1"),
    ),
    hostile(
        "recursion through a proxy",
        "const p = new Proxy({}, { get: (t, k, r) => r[k] }); try { p.x } catch { return 1 }",
        Returns("1"),
    ),
    hostile(
        "recursion through toString",
        "const o = { toString() { return '' + o } }; try { '' + o } catch { return 1 }",
        Returns("1"),
    ),
    hostile("deep JSON to read", "try { JSON.parse('['.repeat(1e5)) } catch { return 1 }", Returns("1")),
    hostile(
        "deep JSON to write",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; try { JSON.stringify(a) } catch { return 1 }",
        Returns("1"),
    ),
    hostile(
        "a deep argument",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; await tools.a.b(a)",
        Fails("invalid_input"),
    ),
    hostile(
        "a deep log line",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; console.log(a); return 1",
        Returns("1"),
    ),
    hostile(
        "a deep regular expression",
        "try { new RegExp('('.repeat(1e5)) } catch { return 1 }",
        Returns("1"),
    ),
    hostile("a deep source", "try { eval('['.repeat(1e5)) } catch { return 1 }", Returns("1")),
    hostile(
        "a deep chain of promises",
        "let p = Promise.resolve(); for (let i = 0; i < 1e4; i++) p = p.then(() => 1); return await p",
        Returns("1"),
    ),
    hostile(
        "a deep chain of nested promises",
        "let p = Promise.resolve(1); for (let i = 0; i < 3e4; i++) { const q = p; p = (async () => q)() } return await p",
        EndsSomehow,
    ),
    hostile(
        "a deep chain of objects to free",
        "let a = null; for (let i = 0; i < 1e5; i++) a = { a }; a = null; return 1",
        Returns("1"),
    ),
    hostile(
        "a deep chain of prototypes",
        "let a = {}; for (let i = 0; i < 1e5; i++) a = Object.create(a); return typeof a.x",
        EndsSomehow,
    ),
    hostile(
        "deep bound functions",
        "let f = () => 1; for (let i = 0; i < 2e4; i++) f = f.bind(null); try { f() } catch {} return 1",
        EndsSomehow,
    ),
    hostile(
        "recursion in the arguments",
        "const o = { toJSON() { return tools.a.b(o) } }; try { await tools.a.b(o) } catch {} return 1",
        EndsSomehow,
    ),
];

/// What the interrupt does not reach.
const UNSTOPPABLE: &[Hostile] = &[
    unstoppable("a text searched in a text", "for (;;) 'a'.repeat(1e5).indexOf('a'.repeat(5e4) + 'b')"),
    unstoppable(
        "includes in a long array",
        "const a = new Array(1e6).fill(0); for (let i = 0; i < 1e6; i++) a.includes(1)",
    ),
    unstoppable("join of an endless array", "const a = []; a.length = 2 ** 32 - 1; return a.join()"),
    unstoppable("a BigInt's remainder", "const n = 3n ** 200000n; for (;;) (n ** 2n) % (n + 1n)"),
    unstoppable("lastIndexOf in megabytes", "for (;;) 'a'.repeat(4e6).lastIndexOf('b' + 'a'.repeat(2e6))"),
];
