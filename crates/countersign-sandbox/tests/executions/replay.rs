//! R8: a script that was parked, killed and brought back at random points ends like one that never paused.
//!
//! A seed makes a script of calls in sequence, side by side and in races: safe, destructive, failing, refused and denied ones,
//! and sleeps. It is run once without a disturbance and once with many. A failure prints its seed.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::canonical::Verbatim;
use countersign_core::event::{CallOutcome, Event, EventBody, Settlement};
use countersign_core::execution::{Execution, Phase, Status};
use countersign_core::ids::ExecutionId;
use countersign_kernel::ports::{ExecutionFilter, Page, Store as _, Write};
use countersign_kernel::{Answer, Gateway, Patience, RunRequest, Target};
use countersign_testkit::chance::Chance;
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::world::{InTests as _, World, ann, says, script, yes};
use serde_json::{Value, json};

use crate::fixture::{Fragile, by_call, through, world};

/// How many scripts are made; a soak makes more.
const SEEDS: u64 = 120;
const SEEDS_VARIABLE: &str = "COUNTERSIGN_SOAK_SCRIPTS";
/// How often a script is disturbed.
const DISTURBED_LIVES: u64 = 6;

#[test]
fn random_scripts_end_the_same_however_often_they_are_parked_and_taken_up_elsewhere() {
    for seed in 0..seeds() {
        let source = source(&mut Chance::new(seed));
        let (rough, world) = rough(seed, &source, Disturbance::Park);
        assert_eq!(rough, smooth(seed, &source), "seed {seed}\n{source}");
        nothing_ran_twice(&world, seed, &source);
    }
}

/// A crash may change which of two calls side by side comes back first, as a slow day may; never what they come to.
#[test]
fn random_scripts_come_to_the_same_however_often_their_process_dies() {
    for seed in 0..seeds() {
        let source = source(&mut Chance::new(seed));
        let (rough, world) = rough(seed, &source, Disturbance::Crash);
        assert_eq!(fates(&rough), fates(&smooth(seed, &source)), "seed {seed}\n{source}");
        nothing_ran_twice(&world, seed, &source);
    }
}

#[expect(clippy::disallowed_methods, reason = "a soak says by the environment how many")]
fn seeds() -> u64 {
    std::env::var(SEEDS_VARIABLE).ok().and_then(|n| n.parse().ok()).unwrap_or(SEEDS)
}

fn nothing_ran_twice(world: &World, seed: u64, source: &str) {
    let mut effects: Vec<String> = world.ledger.effects().into_iter().map(|e| e.key).collect();
    let all = effects.len();
    effects.sort();
    effects.dedup();
    assert_eq!(effects.len(), all, "seed {seed}: an effect was repeated\n{source}");
}

/// What became of each call, whoever came first.
fn fates(value: &Value) -> Vec<String> {
    let all = value.as_array().cloned().unwrap_or_default();
    let mut fates: Vec<String> = all
        .iter()
        .filter_map(Value::as_str)
        .filter(|text| text.contains(':') && !text.starts_with('['))
        .map(str::to_owned)
        .collect();
    fates.sort();
    fates
}

/// What happens to a script between its start and its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    /// It is parked, and its process ends while it is.
    Park,
    /// Its process dies at a random write, too.
    Crash,
}

/// A script, and what it returns: the fate of everything it asked for, in the order it learned of it.
fn source(chance: &mut Chance) -> String {
    let mut text = String::from(
        "const fates: unknown[] = [];\n\
         const note = async (name: string, call: Promise<unknown>): Promise<string> => {\n\
         \x20 const fate = await call.then(() => 'ok', (e) => e.code === 'denied' ? 'denied' : 'no');\n\
         \x20 fates.push(name + ':' + fate);\n  return name;\n};\n",
    );
    for block in 0..2 + chance.below(4) {
        // Time goes on while nothing runs, so a sleep beside calls may be over sooner in a life that was disturbed.
        if chance.one_in(4) {
            let _ = writeln!(text, "await note('nap {block}', sleep({}));", chance.below(200));
        }
        let calls: Vec<String> =
            (0..1 + chance.below(4)).map(|n| call(&format!("{block}.{n}"), chance)).collect();
        let calls = calls.join(", ");
        let joined = ["all", "allSettled", "race", "any"][chance.below(4) as usize];
        let _ = writeln!(text, "const w{block} = await Promise.{joined}([{calls}]);");
        let _ = writeln!(text, "fates.push(JSON.stringify(w{block}));");
    }
    text + "return fates;"
}

fn call(name: &str, chance: &mut Chance) -> String {
    let call = match chance.below(7) {
        0 | 1 => format!("tools.lab.read({{ what: '{name}' }})"),
        2 | 3 => format!("tools.lab.destroy_each({{ what: '{name}' }})"),
        4 => format!("tools.lab.destroy_each({{ what: 'deny {name}' }})"),
        5 => "tools.lab.fail({ what: 'error' })".to_owned(),
        _ => "tools.lab.no_such_tool({})".to_owned(),
    };
    format!("note('{name}', {call})")
}

/// The script without a disturbance: everything is answered while it is in memory.
fn smooth(seed: u64, source: &str) -> Value {
    let world = world(seed);
    world.life(async |gateway| to_its_end(&world, &gateway, source).await)
}

/// The script with park and death at random points.
fn rough(seed: u64, source: &str, disturbance: Disturbance) -> (Value, World) {
    let chance = &mut Chance::new(seed ^ 0xd15_7047);
    let world = world(seed).set(|settings| settings.park_after = Duration::from_millis(50));
    for _ in 0..DISTURBED_LIVES {
        let faults = match chance.below(3) {
            _ if disturbance == Disturbance::Park => Faults::none(),
            0 => Faults::none(),
            // The first two writes of the first life are the rulebook's and the session's.
            1 => Faults::at(3 + chance.below(8), Fault::CrashBefore),
            _ => Faults::at(3 + chance.below(8), Fault::CrashAfter),
        };
        let answers = chance.below(4);
        world.life_until_death(&faults, async |gateway| {
            let life = async {
                if gateway.run(keyed(source)).await.is_ok() {
                    for _ in 0..answers {
                        answer_oldest(&world, &gateway).await;
                    }
                    if disturbance == Disturbance::Park {
                        tokio::time::sleep(Duration::from_secs(10)).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = faults.until_crashed() => {}
                () = life => {}
            }
        });
    }
    let value = world.life(async |gateway| to_its_end(&world, &gateway, source).await);
    (value, world)
}

async fn to_its_end(world: &World, gateway: &Gateway, source: &str) -> Value {
    let run = gateway.run(keyed(source)).await.unwrap();
    loop {
        answer_oldest(world, gateway).await;
        let result = gateway.result(run.execution).await.unwrap().unwrap();
        if result.status.is_final() {
            return result.value.unwrap_or_else(|| panic!("{:?}\n{source}", result.error));
        }
    }
}

fn keyed(source: &str) -> RunRequest {
    RunRequest { key: Some("the-script".into()), ..script(source) }
}

/// Once everything else has come to rest, doubts are settled and the oldest question is answered, always the same way.
async fn answer_oldest(world: &World, gateway: &Gateway) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    settle_doubts(world, gateway).await;
    let open = gateway.open().await;
    // Oldest by call, not by id: ids are drawn anew in every life.
    let Some(row) = open.iter().min_by_key(|row| row.elicitation.call) else { return };
    let denies = row.elicitation.args.as_str().contains("deny");
    let answer = if denies { Answer::Deny } else { yes() };
    // A decision that the crash swallowed is made again in the next life.
    let _ = gateway.decide(says(ann(), Target::Elicitation(row.elicitation.id), answer)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
}

/// Somebody looks, and says what really happened.
async fn settle_doubts(world: &World, gateway: &Gateway) {
    let filter = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(filter, Page::first(10)).await else { return };
    for row in rows.items {
        let Ok(execution) = Execution::replay(&gateway.journal(row.id).await.unwrap_or_default()) else {
            return;
        };
        for call in execution.unsettled().filter(|call| matches!(call.phase(), Phase::InDoubt(_))) {
            let key = format!("{}.{}", row.id, call.no);
            let happened = world.ledger.effects().iter().any(|effect| effect.key == key);
            let settlement = match call.path.as_str() {
                "lab.fail" => Settlement::Failed { message: "it failed".into() },
                _ if happened => Settlement::Done { value: Verbatim::of(&json!({ "done": true })).unwrap() },
                _ => Settlement::Retry,
            };
            let _ = gateway.settle(row.id, call.no, settlement, &ann()).await;
        }
    }
}

/// A journal as another script would have left it: the code asks for something else than is recorded.
async fn forge(world: &World, execution: ExecutionId, code: &str) -> ExecutionId {
    let journal = world.disk.journal(execution).await.unwrap();
    let forged = ExecutionId::from_random([9; 16]);
    let mut row =
        world.disk.executions(ExecutionFilter::default(), Page::first(10)).await.unwrap().items.remove(0);
    row.id = forged;
    let mut opened = Vec::new();
    let events: Vec<Event> = journal
        .into_iter()
        .map(|mut event| {
            match &mut event.body {
                EventBody::Started(started) => {
                    started.execution = forged;
                    let script = started.script.as_mut().unwrap();
                    script.code = code.to_owned();
                    script.mappings = String::new();
                }
                EventBody::Asked(elicitation) => {
                    Arc::make_mut(elicitation).id =
                        countersign_core::ids::ElicitationId::from_random([9; 16]);
                    opened.push(Arc::clone(elicitation));
                }
                _ => {}
            }
            event
        })
        .collect();
    let at = events.last().unwrap().at;
    let opened = opened
        .into_iter()
        .map(|elicitation| countersign_kernel::ports::ElicitationRow {
            elicitation,
            execution: forged,
            session: row.session.clone(),
            requester: row.requester.clone(),
            owner: row.owner.clone(),
            asked_at: at,
            decision: None,
        })
        .collect();
    let commit = countersign_core::commit::StoredCommit::of(&events, None).unwrap();
    let journal =
        countersign_kernel::ports::JournalWrite { expected: 0, row, opened, decided: vec![], commit };
    world.disk.commit(Write { journal: Some(journal), ..Write::default() }).await.unwrap();
    forged
}

#[test]
fn a_script_that_no_longer_does_what_its_journal_says_halts_before_anything_runs() {
    let source = "await tools.lab.read({ what: 'a' }); await tools.lab.destroy_each({ what: 'b' });";
    for (code, at) in [
        (
            "await tools.lab.read({ what: 'other' }); await tools.lab.destroy_each({ what: 'b' });",
            "request 0",
        ),
        ("await tools.lab.read({ what: 'a' }); await tools.lab.destroy_each({ what: 'c' });", "request 1"),
        ("await tools.lab.read({ what: 'a' }); await sleep(1);", "request 1"),
        ("await tools.lab.read({ what: 'a' });", "request 1"),
        ("return 1;", "request 0"),
        ("await new Promise(() => {});", "request 0"),
    ] {
        let world = world(8);
        world.life(async |gateway| {
            let paused = gateway.runs(source).await;
            let forged = forge(&world, paused.execution, code).await;
            gateway.decide(says(ann(), Target::Execution(forged), yes())).await.unwrap();
            let end = gateway.wait(forged, Patience::Unlimited).await.unwrap().unwrap();
            let error = end.error.unwrap();
            assert_eq!(error.code, "diverged", "{code}: {}", error.message);
            assert!(error.message.contains(at), "{code}: {}", error.message);
            assert!(error.message.contains("digest"), "{code}: {}", error.message);
            assert!(
                world.ledger.effects().is_empty(),
                "{code}: it ran although it was approved for another script"
            );
        });
    }
}

/// A line is for people to look at. A newer stripper, or a journal of a build that knew no lines, must not halt a script.
#[test]
fn a_script_whose_calls_come_from_other_lines_is_still_the_same_script() {
    let source =
        "await tools.lab.read({ what: 'a' });\n\nreturn (await tools.lab.destroy_each({ what: 'b' })).done;";
    let world = world(8);
    world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        let forged = forge(&world, paused.execution, &source.replace('\n', " ")).await;
        gateway.decide(says(ann(), Target::Execution(forged), yes())).await.unwrap();
        let end = gateway.wait(forged, Patience::Unlimited).await.unwrap().unwrap();
        assert_eq!(end.value, Some(json!(true)), "{:?}", end.error);
        let lines: Vec<_> = end.calls.iter().map(|call| call.line).collect();
        assert_eq!(lines, [Some(1), Some(3)], "as they were recorded");
    });
}

#[test]
fn what_completed_is_not_run_again_on_replay() {
    let world = world(8).set(|settings| settings.park_after = Duration::from_millis(10));
    let source = r#"
        const made = [];
        for (let i = 0; i < 4; i++) made.push((await tools.lab.destroy_each({ what: String(i) })).done);
        return made;"#;
    let end = world.life(async |gateway| {
        let mut result = gateway.runs(source).await;
        while result.paused().is_some() {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(gateway.live(), 0);
            gateway.ann_says(&result, yes()).await.unwrap();
            result = gateway.wait(result.execution, Patience::UntilPaused).await.unwrap().unwrap();
        }
        result
    });
    assert_eq!(end.value, Some(json!([true, true, true, true])));
    let effects: Vec<String> = world.ledger.effects().into_iter().map(|e| e.what).collect();
    assert_eq!(effects, ["0", "1", "2", "3"]);
}

#[test]
fn completions_come_back_in_their_recorded_order() {
    let world = world(8).set(|settings| settings.park_after = Duration::from_millis(10));
    let source = r#"
        const order = [];
        const note = (name, call) => call.then(() => order.push(name), () => order.push("no " + name));
        await Promise.all(["a", "b", "c"].map((what) => note(what, tools.lab.destroy_each({ what }))));
        await tools.lab.destroy_each({ what: "last" });
        return order;"#;
    world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let open = by_call(gateway.open().await);
        for (n, answer) in [(1, yes()), (2, Answer::Deny), (0, yes())] {
            let target = Target::Elicitation(open[n].elicitation.id);
            gateway.decide(says(ann(), target, answer)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(gateway.live(), 0, "parked after each");
        }
        gateway.ann_says(&paused, yes()).await.unwrap();
        let end = gateway.end_of(&paused).await;
        assert_eq!(end.value, Some(json!(["b", "no c", "a"])));
        let journal = gateway.journal(end.execution).await.unwrap();
        let failed = journal
            .iter()
            .filter(|e| matches!(&e.body, EventBody::CallSettled { outcome: CallOutcome::Failed(_), .. }));
        assert_eq!(failed.count(), 1);
    });
}

#[test]
fn a_vm_that_dies_is_replaced_and_one_that_dies_again_and_again_ends_its_script() {
    let source = r#"
        const made = [];
        for (const what of ["a", "b"]) made.push((await tools.lab.destroy_each({ what })).done);
        return made;"#;
    for (deaths, ends) in [(2, "succeeded"), (3, "failed")] {
        let world = World::new(8).with_scripts(Fragile::dying(deaths));
        let end = world.life(async |gateway| through(&gateway, source, &yes()).await);
        assert_eq!(end.status.as_str(), ends, "{deaths} deaths: {:?}", end.error);
        let effects: Vec<String> = world.ledger.effects().into_iter().map(|effect| effect.what).collect();
        match end.error {
            None => assert_eq!(effects, ["a", "b"], "what had run did not run again"),
            Some(error) => assert_eq!((error.code.as_str(), effects.len()), ("sandbox_crashed", 1)),
        }
    }
}
