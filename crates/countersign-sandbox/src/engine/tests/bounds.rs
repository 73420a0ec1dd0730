//! Limits, at their edge and past it; and that nothing outlives them.

use super::*;
use std::time::Duration;

fn small() -> Limits {
    Limits { memory_bytes: 16 * 1024 * 1024, cpu: Duration::from_millis(200), ..Limits::default() }
}

fn fault(source: &str, limits: &Limits) -> ScriptFault {
    start_within(source, limits).1.unwrap_err()
}

#[test]
fn computing_has_a_bound_that_cannot_be_caught() {
    for source in [
        "for (;;);",
        "for (;;) { try { for (;;); } catch { } finally { continue } }",
        "const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})",
        "async function f() { try { for (;;); } catch (e) { return 1 } } return await f()",
    ] {
        assert_eq!(fault(source, &small()), ScriptFault::CpuLimit { bound_ms: 200 }, "{source}");
    }
}

#[test]
fn computing_adds_up_over_turns_and_waiting_is_free() {
    let burn = "for (let i = 0, t = 0; i < 2e5; i++) t += i;";
    let source = format!("for (;;) {{ await tools.a.b(); {burn} }}");
    let limits = small();
    let (mut engine, turn) = start_within(&source, &limits);
    turn.unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let ended =
        (0..1000).find_map(|no| engine.deliver(&[done(no, NOW, &json!(1))]).err().map(|fault| (no, fault)));
    let (turns, fault) = ended.unwrap();
    assert_eq!(fault, ScriptFault::CpuLimit { bound_ms: 200 });
    assert!(turns > 0, "waiting counted");
}

#[test]
fn memory_has_a_bound() {
    let end = fault("const a = []; for (;;) a.push(new Uint8Array(1 << 20))", &small());
    assert_eq!(end, ScriptFault::OutOfMemory { bound_mib: 16 });
    let (_, turn) = start_within("return new Uint8Array(8 << 20).length", &small());
    assert_eq!(value_of(&turn.unwrap()), json!(8 << 20));
}

#[test]
fn lack_of_memory_may_be_caught_and_the_script_goes_on() {
    let source = "try { const a = []; for (;;) a.push(new Uint8Array(1 << 20)) } catch (e) { }\nreturn await tools.a.b({ x: 1 })";
    let (mut engine, turn) = start_within(source, &small());
    assert_eq!(paths(&turn.unwrap().requests), [r#"0 a.b {"x":1}"#]);
    assert_eq!(value_of(&engine.deliver(&[done(0, NOW, &json!(5))]).unwrap()), json!(5));
}

#[test]
fn calls_have_a_bound_that_cannot_be_caught() {
    let limits = Limits { calls: 3, ..small() };
    let (_, turn) = start_within("tools.a.b(); sleep(1); tools.a.b(); return 1", &limits);
    assert_eq!(turn.unwrap().requests.len(), 3);
    for source in [
        "for (let i = 0; i < 4; i++) tools.a.b(); return 1",
        "for (let i = 0; i < 4; i++) sleep(1); return 1",
        "for (let i = 0; i < 4; i++) try { tools.a.b().catch(() => 1) } catch {} return 1",
    ] {
        assert_eq!(fault(source, &limits), ScriptFault::TooManyCalls { bound: 3 }, "{source}");
    }
}

#[test]
fn a_value_has_a_bound_at_its_edge() {
    let limits = Limits { value_bytes: 100, ..small() };
    let ends = |length: usize| {
        let (_, turn) = start_within(&format!("return 'x'.repeat({length})"), &limits);
        turn.unwrap().end
    };
    assert!(matches!(ends(98), Some(ScriptEnd::Returned(_))));
    let Some(ScriptEnd::Threw(failure)) = ends(99) else { panic!("too large") };
    assert_eq!(failure.code, "value_too_large");
    let asks = |length: usize| {
        let (_, turn) = start_within(&format!("await tools.a.b('x'.repeat({length}))"), &limits);
        turn.unwrap()
    };
    assert_eq!(asks(98).requests.len(), 1);
    assert_eq!(failure_of(&asks(99)).code, "value_too_large");
}

#[test]
fn depth_has_the_same_bound_in_both_directions() {
    let nested =
        |levels: usize, what: &str| format!("let a = 1; for (let i = 0; i < {levels}; i++) a = [a]; {what}");
    assert_eq!(start(&nested(64, "await tools.a.b(a)")).1.requests.len(), 1);
    assert_eq!(threw(&nested(65, "await tools.a.b(a)")).code, "value_too_deep");
    assert!(matches!(start(&nested(64, "return a")).1.end, Some(ScriptEnd::Returned(_))));
    assert_eq!(threw(&nested(65, "return a")).code, "value_too_deep");
}

#[test]
fn arguments_that_pile_up_count_as_memory() {
    let limits = Limits { memory_bytes: 2 * 1024 * 1024, cpu: Duration::from_secs(10), ..small() };
    let end = fault("const s = 'x'.repeat(1e5); for (;;) tools.a.b({ s })", &limits);
    assert_eq!(end, ScriptFault::OutOfMemory { bound_mib: 2 });
    let source = "const s = 'x'.repeat(1e5); for (let i = 0; i < 40; i++) await tools.a.b({ s }); return 1";
    let (mut engine, turn) = start_within(source, &limits);
    turn.unwrap();
    let all: Vec<_> = (0..40).map(|no| done(no, NOW, &json!(1))).collect();
    assert_eq!(value_of(&engine.deliver(&all).unwrap()), json!(1), "one after the other they do not pile up");
}

#[test]
fn time_spent_in_the_host_for_the_script_counts() {
    let limits = Limits { cpu: Duration::from_millis(50), ..small() };
    let source = "const s = 'x'.repeat(1e6); for (let i = 0; i < 3000; i++) try { await tools.a.b({ s, b: 1n }) } catch {}";
    assert_eq!(fault(source, &limits), ScriptFault::CpuLimit { bound_ms: 50 });
}

#[test]
fn a_log_line_and_all_of_them_have_a_bound() {
    let (_, turn) = start(
        "console.log('x'.repeat(8192)); console.log('x'.repeat(8193), 'y'); console.log('\u{20ac}'.repeat(9000))",
    );
    assert_eq!(turn.logs[0].message.len(), 8192);
    assert!(turn.logs[0].message.ends_with('x'));
    for line in &turn.logs[1..] {
        assert!(line.message.ends_with('…') && line.message.len() <= 8192, "{}", line.message.len());
    }
    let (_, turn) = start("for (let i = 0; i < 5000; i++) console.log(i)");
    assert_eq!(turn.logs.len(), 1001);
    assert!(turn.logs[1000].message.contains("dropped"));
    assert_eq!(turn.logs[999].message, "999");
}

#[test]
fn a_thrown_text_has_a_bound() {
    let failure = threw("throw new Error('x'.repeat(1e6))");
    assert!(failure.message.len() <= 16 * 1024, "{}", failure.message.len());
    assert!(failure.message.contains("(line 1, "), "its place is not cut off");
}

#[test]
fn a_script_that_ended_or_was_ended_says_no_more() {
    let (mut engine, _) = start("return 1");
    assert_eq!(engine.deliver(&[]).unwrap_err().code(), "sandbox_crashed");
    let (mut engine, turn) = start_within("for (;;);", &small());
    assert_eq!(turn.unwrap_err().code(), "cpu_limit");
    assert_eq!(engine.deliver(&[]).unwrap_err().code(), "sandbox_crashed");
    let mut engine = Engine::new(&small()).unwrap();
    assert_eq!(engine.deliver(&[]).unwrap_err().code(), "sandbox_crashed", "not started");
    let (mut engine, _) = start("await tools.a.b()");
    assert_eq!(engine.start(&program("return 1")).unwrap_err().code(), "sandbox_crashed", "started twice");
}

#[test]
fn a_completion_for_which_nothing_waits_is_named() {
    for wrong in [1, 7] {
        let (mut engine, _) = start("await tools.a.b()");
        let fault = engine.deliver(&[done(wrong, NOW, &json!(1))]).unwrap_err();
        assert_eq!(fault, ScriptFault::NotAsked { request: wrong });
    }
    let (mut engine, _) = start("tools.a.b(); await tools.a.c()");
    engine.deliver(&[done(0, NOW, &json!(1))]).unwrap();
    assert_eq!(engine.deliver(&[done(0, NOW, &json!(1))]).unwrap_err().code(), "diverged", "a second time");
}

#[test]
fn completions_after_the_end_change_nothing() {
    let (mut engine, _) = start("tools.a.b(); const r = await tools.a.c(); return [r, Date.now()]");
    let turn = engine.deliver(&[done(1, NOW + 1, &json!(1)), done(0, NOW + 2, &json!(2))]).unwrap();
    assert_eq!(value_of(&turn), json!([1, NOW + 1]));
}

#[test]
fn an_engine_may_be_dropped_at_any_moment() {
    drop(Engine::new(&small()).unwrap());
    drop(start("const p = [tools.a.b(), sleep(4)]; globalThis.p = p; await Promise.all(p)"));
    drop(start("async function* g() { yield await tools.a.b() } for await (const x of g());"));
    let unwound = std::panic::catch_unwind(|| {
        let _engine = start("globalThis.x = tools.a.b(); await x");
        panic!("on purpose");
    });
    assert!(unwound.is_err());
}

#[test]
fn an_engine_survives_lack_of_memory_at_every_step() {
    let source = "const keep = []; const f = async (n) => { keep.push(tools.a.b({ n })); await null; \
         keep.push({ n, s: 'x'.repeat(n % 97) }, new Map([[n, n]]), /x/.exec('x'), new Error('e')); \
         console.log(keep.length, { n }); return n }; for (let i = 0; i < 400; i++) await f(i); return keep.length";
    for kib in (200..1200).step_by(7) {
        let limits = Limits { memory_bytes: kib * 1024, ..small() };
        let Ok(mut engine) = Engine::new(&limits) else { continue };
        let _ = engine.start(&program(source));
        let _ = engine.deliver(&[done(0, NOW, &json!({ "a": [1, 2, 3] }))]);
    }
}
