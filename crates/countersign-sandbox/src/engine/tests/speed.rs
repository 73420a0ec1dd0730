//! How fast it is. Only the shape is asserted, generously; `cargo test --release -- --ignored --nocapture speed` says the
//! figures.

use super::*;
use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "only measures")]
fn now() -> Instant {
    Instant::now()
}

fn median(rounds: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let start = now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[rounds / 2]
}

fn replay(calls: u32) -> Duration {
    let source =
        format!("let t = 0; for (let i = 0; i < {calls}; i++) t += (await tools.a.b.c({{ i }})).i; return t");
    let program = program(&source);
    let completions: Vec<_> = (0..calls).map(|no| done(no, NOW, &json!({ "i": no }))).collect();
    // Sequential awaits: each completion is outstanding only after the one before it.
    median(15, || {
        let mut engine = Engine::new(&Limits::default()).unwrap();
        engine.start(&program).unwrap();
        let turn = engine.deliver(&completions).unwrap();
        assert!(turn.end.is_some());
    })
}

#[test]
fn a_replay_is_linear_in_its_completions() {
    let (small, large) = (replay(250), replay(2000));
    assert!(large < small * 8 * 4, "{small:?} for 250, {large:?} for 2,000");
}

#[test]
#[ignore = "prints figures; run it in release"]
fn speed_in_figures() {
    let one = program("return 1 + 1");
    let fresh = median(500, || {
        let mut engine = Engine::new(&Limits::default()).unwrap();
        assert!(engine.start(&one).unwrap().end.is_some());
    });
    let mut warm: Vec<_> = (0..200).map(|_| Engine::new(&Limits::default()).unwrap()).collect();
    let started = median(200, || {
        assert!(warm.pop().unwrap().start(&one).unwrap().end.is_some());
    });
    let source = "interface Issue { id: number; title: string; labels?: string[] }\nasync function page(n: number): Promise<Issue[]> {\n  \
         const r = (await tools.github.issues.list({ page: n })) as { items: Issue[] };\n  return r.items.filter((i: Issue) => i.labels?.includes('bug') ?? false);\n}\n"
        .repeat(20)
        .replace("page(n", "page_(n");
    let source: String = source
        .split("interface Issue")
        .enumerate()
        .skip(1)
        .map(|(i, part)| format!("interface Issue{i}{}", part.replace("page_", &format!("page{i}"))))
        .collect();
    let stripping = median(500, || drop(strip(&source, &Limits::default()).unwrap()));
    println!("fresh engine and 1 + 1: {fresh:?}; warm: {started:?}");
    println!("stripping {} bytes: {stripping:?}", source.len());
    for calls in [100, 1_000, 10_000] {
        println!("replay of {calls}: {:?}", replay(calls));
    }
}
