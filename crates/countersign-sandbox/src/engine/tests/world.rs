//! Calls, results, errors, logs, time, randomness.

use super::*;

#[test]
fn a_script_returns_a_value() {
    assert_eq!(returned("return 1 + 1"), json!(2));
    assert_eq!(returned(""), json!(null));
    assert_eq!(returned("return { a: [1, 'x', null, undefined] }"), json!({ "a": [1, "x", null, null] }));
    assert_eq!(returned("enum E { A, B = 5, C }\nreturn E.C as number"), json!(6));
    assert_eq!(returned("return await (async () => 3)()"), json!(3));
}

#[test]
fn it_is_strict_and_this_is_nothing() {
    assert_eq!(returned("return this === undefined"), json!(true));
    assert_eq!(threw("undeclared = 1").code, "script_error");
}

#[test]
fn an_error_says_where_in_the_source_it_was_made() {
    let failure = threw("const a: { x?: { y: number } } = {};\n\n  return a.x!.y;");
    assert_eq!(failure.code, "script_error");
    assert_eq!(failure.message, "TypeError: cannot read property 'y' of undefined (line 3, column 10)");
    let failure = threw("type T = number;\nconst s = '\u{e4}\u{1f600}'; throw new RangeError('far');");
    assert!(failure.message.starts_with("RangeError: far (line 2, column "), "{}", failure.message);
    let failure = threw(
        "interface A {}\nfunction f(n: number) {\n  if (n) f(n - 1);\n  else throw new Error('x');\n}\nf(2);",
    );
    assert!(failure.message.ends_with("(line 4, column 18)"), "{}", failure.message);
    let failure = threw("await null;\nnull!.x;");
    assert!(failure.message.contains("(line 2, "), "after a wait too: {}", failure.message);
}

#[test]
fn what_only_the_engine_refuses_is_refused_with_its_place() {
    let (_, turn) = start_within("const d = () => {};\n@d class A {}", &Limits::default());
    let Err(ScriptFault::Invalid { message, line, .. }) = turn else { panic!("{turn:?}") };
    assert!(message.starts_with("SyntaxError: "), "{message}");
    assert_eq!(line, 2);
}

#[test]
fn a_call_is_asked_for_and_its_value_comes_back() {
    let (mut engine, turn) =
        start("const r = await tools.github.issues.list({ b: 1, a: 'x' });\nreturn r.n + 1;");
    assert_eq!(paths(&turn.requests), [r#"0 github.issues.list {"a":"x","b":1}"#]);
    assert_eq!(turn.end, None);
    let turn = engine.deliver(&[done(0, NOW, &json!({ "n": 41 }))]).unwrap();
    assert_eq!(value_of(&turn), json!(42));
}

#[test]
fn no_argument_is_an_empty_object() {
    assert_eq!(paths(&start("await tools.a.b()").1.requests), ["0 a.b {}"]);
    assert_eq!(paths(&start("await tools.a.b(null)").1.requests), ["0 a.b null"], "given is given");
}

#[test]
fn requests_are_numbered_in_the_order_they_were_made() {
    let (_, turn) = start("tools.a.a(); sleep(5); await Promise.all([tools.a.b(), tools.a.c()])");
    assert_eq!(paths(&turn.requests), ["0 a.a {}", "1 sleep 5", "2 a.b {}", "3 a.c {}"]);
}

#[test]
fn a_call_knows_the_line_of_the_source_that_made_it() {
    let source = "interface Note {\n  id: number;\n}\nconst del = (note: Note) =>\n  tools.notes.delete(note);\n\n\
        for (const id of [1, 2]) del({ id });\nsleep(1);\nconst x: number = 1; await tools.a.b();\n\
        /* \u{1f600} */ await tools.a.c({\n  x,\n});";
    let lines = |turn: &Turn| turn.requests.iter().map(|request| request.line).collect::<Vec<_>>();
    let (mut engine, turn) = start(source);
    assert_eq!(lines(&turn), [Some(5), Some(5), None, Some(9)]);
    let turn = engine.deliver(&[done(3, NOW, &json!(null))]).unwrap();
    assert_eq!(lines(&turn), [Some(10)], "after a wait too");
}

#[test]
fn a_script_that_lies_about_its_places_deceives_nobody_but_its_reader() {
    let source = "const f = { ['x (script:2:1)\\n    at y']() { return tools.a.b() } };\n\
        Object.defineProperty(Error.prototype, 'stack', { get() { throw 1 }, set() { throw 2 } });\n\
        Error.stackTraceLimit = 0;\nf['x (script:2:1)\\n    at y']();\nawait tools.a.c();";
    let (_, turn) = start(source);
    assert_eq!(paths(&turn.requests), ["0 a.b {}", "1 a.c {}"], "{:?}", turn.end);
    assert!(turn.requests.iter().all(|request| request.line.is_none_or(|line| (1..=5).contains(&line))));
}

#[test]
fn a_failed_call_throws_an_error_that_can_be_read() {
    let (mut engine, _) = start(
        "try { await tools.a.b({}) } catch (e) { return [e.name, e.code, e.message, e.path, e instanceof Error, JSON.stringify(e)] }",
    );
    let turn = engine.deliver(&[failed(0, NOW, "denied", "A person said no.")]).unwrap();
    let read =
        json!(["ToolError", "denied", "A person said no.", "a.b", true, r#"{"code":"denied","path":"a.b"}"#]);
    assert_eq!(value_of(&turn), read);
}

#[test]
fn a_failed_call_that_nobody_catches_ends_the_script_with_its_code_and_place() {
    let (mut engine, _) = start("const x = 1;\nawait tools.a.b({});");
    let turn = engine.deliver(&[failed(0, NOW, "denied", "A person said no.")]).unwrap();
    let failure = failure_of(&turn);
    assert_eq!(failure.code, "denied");
    assert_eq!(failure.message, "A person said no. (line 2, column 15)");
}

#[test]
fn what_was_refused_made_no_request_and_can_be_caught() {
    let (_, turn) = start(
        "const codes = [];\nfor (const bad of [1n, undefined, () => 1, 'a\\0', 2 ** 53, '\\ud800']) {\n  \
         try { await tools.a.b(bad) } catch (e) { codes.push(e.code) }\n}\nreturn codes;",
    );
    assert_eq!(turn.requests, []);
    assert_eq!(value_of(&turn), json!(vec!["invalid_input"; 6]));
}

#[test]
fn a_refused_argument_rejects_and_does_not_throw() {
    assert_eq!(
        returned("const p = tools.a.b(1n); return await p.catch((e) => e.code)"),
        json!("invalid_input")
    );
    assert_eq!(
        returned(
            "const p = tools.a.b(1, 2); return await p.catch((e) => [e instanceof TypeError, e.message])"
        ),
        json!([true, "a.b takes one argument, an object, or none; it was given 2"])
    );
}

#[test]
fn sleep_takes_milliseconds_up_to_a_day() {
    let (mut engine, turn) = start("await sleep(1500); return Date.now()");
    assert_eq!(paths(&turn.requests), ["0 sleep 1500"]);
    let turn = engine.deliver(&[done(0, NOW + 1600, &json!(null))]).unwrap();
    assert_eq!(value_of(&turn), json!(NOW + 1600));
    assert_eq!(
        paths(&start("sleep(0.2); sleep(86400000); sleep(0)").1.requests),
        ["0 sleep 1", "1 sleep 86400000", "2 sleep 0"]
    );
    for bad in ["-1", "NaN", "Infinity", "86400001", "'5'", "", "{}"] {
        let failure = threw(&format!("await sleep({bad})"));
        assert_eq!(failure.code, "invalid_input", "{bad}");
        assert!(failure.message.starts_with("sleep takes a number of milliseconds"), "{}", failure.message);
    }
}

#[test]
fn time_is_that_of_the_last_completion() {
    let (mut engine, turn) = start(
        "const t = [Date.now(), new Date().getTime(), Date()];\ntools.a.a().then(() => console.log(Date.now()));\n\
         await tools.a.b(); t.push(Date.now()); await null; t.push(+new Date()); return t;",
    );
    assert_eq!(turn.logs, []);
    let turn = engine.deliver(&[done(0, NOW + 10, &json!(1)), done(1, NOW + 20, &json!(1))]).unwrap();
    assert_eq!(turn.logs[0].message, (NOW + 10).to_string());
    let text = "Tue Nov 14 2023 22:13:20 GMT+0000 (UTC)";
    assert_eq!(value_of(&turn), json!([NOW, NOW, text, NOW + 20, NOW + 20]));
}

#[test]
fn the_zone_is_utc() {
    // On a machine with another zone this shows what the prelude does; `TZ=Asia/Tokyo cargo test` is such a machine.
    assert_eq!(
        returned(
            "const d = new Date(2024, 6, 1, 12, 30, 15, 500);\nconst x = new Date(d);\nx.setHours(1, 2, 3, 4);\n\
             return [d.toISOString(), d.getHours(), d.getTimezoneOffset(), d.getDay(), x.toISOString(), d.toString(),\n\
             new Date('2024-07-01T12:00').toISOString(), new Date('2024-07-01').toISOString(), Date.parse('Jul 1 2024 12:00'),\n\
             d.toLocaleTimeString(), d.toDateString(), String(new Date(NaN)), new Date(NaN).getTimezoneOffset(), `${d}` === d.toString()]"
        ),
        json!([
            "2024-07-01T12:30:15.500Z",
            12,
            0,
            1,
            "2024-07-01T01:02:03.004Z",
            "Mon Jul 01 2024 12:30:15 GMT+0000 (UTC)",
            "2024-07-01T12:00:00.000Z",
            "2024-07-01T00:00:00.000Z",
            1_719_835_200_000_u64,
            "12:30:15 GMT+0000 (UTC)",
            "Mon Jul 01 2024",
            "Invalid Date",
            null,
            true
        ])
    );
}

#[test]
fn dates_can_be_subclassed_copied_and_compared() {
    assert_eq!(
        returned(
            "class D extends Date { twice() { return this.getTime() * 2 } }\nconst d = new D(5);\n\
             return [d.twice(), d instanceof Date, new Date(d) - 0, Date.UTC(1970, 0, 1), typeof Date.now, Date.length, new D().getTime()]"
        ),
        json!([10, true, 5, 0, "function", 7, NOW])
    );
}

#[test]
fn randomness_comes_from_the_seed() {
    let source = "const a = new Uint8Array(7); crypto.getRandomValues(a);\n\
         return [Math.random(), Math.random(), crypto.randomUUID(), [...a], [...crypto.getRandomValues(new Int16Array(2))]]";
    let first = returned(source);
    assert_eq!(first, returned(source));
    let mut engine = Engine::new(&Limits::default()).unwrap();
    let other = engine.start(&Program { seed: [8; 32], ..program(source) }).unwrap();
    assert_ne!(first, value_of(&other));
    assert_eq!(threw("crypto.getRandomValues(new Float64Array(1))").code, "invalid_input");
    assert_eq!(threw("crypto.getRandomValues({})").code, "invalid_input");
    assert_eq!(threw("crypto.getRandomValues(new Uint8Array(65537))").code, "invalid_input");
}

#[test]
fn console_becomes_log_lines() {
    let (_, turn) = start(
        "console.log('a', 1, { b: [true, null, undefined], c: 'x' });\nconsole.debug('d'); console.trace('t');\n\
         console.info(); console.warn(new TypeError('w')); console.error([new Date(0), () => 1]);",
    );
    let shown: Vec<_> = turn.logs.iter().map(|line| (line.level, line.message.as_str())).collect();
    assert_eq!(
        shown,
        [
            (LogLevel::Info, r#"a 1 {"b":[true,null,undefined],"c":"x"}"#),
            (LogLevel::Debug, "d"),
            (LogLevel::Debug, "t"),
            (LogLevel::Info, ""),
            (LogLevel::Warn, "TypeError: w"),
            (LogLevel::Error, r#"["1970-01-01T00:00:00.000Z",[function]]"#),
        ]
    );
}

#[test]
fn cycles_depth_and_hostile_values_are_logged_readably() {
    let (_, turn) = start(
        "const c = { n: 1 }; c.c = c; console.log(c);\nlet d = 1; for (let i = 0; i < 20; i++) d = [d]; console.log(d);\n\
         console.log({ get x() { throw 1 }, y: 2 });\nconsole.log('\\ud800', Symbol('s'), 10n);\nconsole.log(tools, tools.a.b);",
    );
    let shown: Vec<_> = turn.logs.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(
        shown,
        [
            r#"{"n":1,"c":[circular]}"#,
            "[[[[[[[…]]]]]]]",
            r#"{"x":[unreadable],"y":2}"#,
            r#""\ud800" [symbol] 10"#,
            "[function] [function]",
        ]
    );
}

#[test]
fn what_is_thrown_but_is_no_error_is_shown() {
    for (source, shown) in [
        ("throw 'text'", "text"),
        ("throw null", "null"),
        ("throw undefined", "undefined"),
        ("throw 42", "42"),
        ("throw { a: 1 }", r#"{"a":1}"#),
        ("throw [1, [2]]", "[1,[2]]"),
    ] {
        let failure = threw(source);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("script_error", shown), "{source}");
    }
}

#[test]
fn a_microtask_that_throws_is_logged_and_the_script_goes_on() {
    let (_, turn) =
        start("queueMicrotask(() => { throw new Error('lost') }); await null; await null; return 1");
    assert_eq!(
        turn.logs,
        [LogLine { level: LogLevel::Error, message: "uncaught in a microtask: Error: lost".into() }]
    );
    assert_eq!(value_of(&turn), json!(1));
}

#[test]
fn a_script_that_nothing_can_wake_is_told_so() {
    let failure = threw("await new Promise(() => {})");
    assert_eq!(failure.code, "script_stuck");
    assert!(failure.message.contains("nothing will ever settle"), "{}", failure.message);
    let (_, turn) = start("tools.a.b(); await new Promise(() => {})");
    assert_eq!(turn.end, None, "the call may still wake it");
}

#[test]
fn calls_that_nobody_waits_for_are_asked_for_with_the_end() {
    let (_, turn) = start("tools.a.b(); return 1");
    assert_eq!(paths(&turn.requests), ["0 a.b {}"]);
    assert_eq!(value_of(&turn), json!(1));
}

#[test]
fn the_world_holds_nothing_that_was_not_meant() {
    let names = returned("return Object.getOwnPropertyNames(globalThis).sort()");
    let names: Vec<_> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(
        names.join(" "),
        WORLD,
        "a new engine brought something: can it tell the time, the machine or the day?"
    );
}

const WORLD: &str = "AggregateError Array ArrayBuffer AsyncDisposableStack BigInt BigInt64Array BigUint64Array Boolean \
    DataView Date DisposableStack Error EvalError Float16Array Float32Array Float64Array Function \
    Infinity Int16Array Int32Array Int8Array InternalError Iterator JSON Map Math NaN Number Object \
    Promise Proxy RangeError ReferenceError Reflect RegExp Set String SuppressedError Symbol SyntaxError \
    TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakSet console \
    crypto decodeURI decodeURIComponent encodeURI encodeURIComponent escape eval globalThis isFinite \
    isNaN parseFloat parseInt queueMicrotask sleep tools undefined unescape";
