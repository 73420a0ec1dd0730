//! Waiting is free: a script that only people can bring on is a row, and comes back by replay.

use std::time::Duration;

use countersign_core::event::EventBody;
use countersign_core::execution::Status;
use countersign_kernel::{Answer, Patience, Target};
use countersign_testkit::faulty_store::{Fault, Faults};
use countersign_testkit::world::{InTests as _, ann, says, yes};
use serde_json::json;

use crate::fixture::{by_call, world};

const TWO: &str = r#"
    const start = Date.now(), dice = Math.random(), id = crypto.randomUUID();
    console.log("hello");
    const read = await tools.lab.read({ what: "first" });
    const one = await tools.lab.destroy_each({ what: "one" }).catch((e) => e.code);
    const same = [start, dice, id];
    const two = await tools.lab.destroy_each({ what: "two" }).catch((e) => e.code);
    return { read: read.what, one, two, same: JSON.stringify(same) };
"#;

#[test]
fn after_park_after_nothing_of_a_paused_script_is_in_memory_and_a_decision_brings_it_back() {
    let world = world(3).set(|settings| settings.park_after = Duration::from_secs(5));
    world.life(async |gateway| {
        let paused = gateway.runs(TWO).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(gateway.live(), 1);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(gateway.live(), 0, "parked");
        gateway.ann_says(&paused, yes()).await.unwrap();
        let again = gateway.wait(paused.execution, Patience::UntilPaused).await.unwrap().unwrap();
        assert_eq!(again.pending.len(), 1);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(gateway.live(), 0);
        gateway.ann_says(&again, yes()).await.unwrap();
        let end = gateway.end_of(&paused).await;
        assert!(end.success(), "{:?}", end.error);
        assert_eq!(world.ledger.effects().len(), 2, "what had run did not run again");
        assert_eq!(end.logs.len(), 1, "what the script said is not said twice: {:?}", end.logs);
    });
}

/// A gate's question and a handler's own; in the answer to the caller, in the list of calls, in the inbox and after a restart.
#[test]
fn a_question_knows_the_line_its_script_waits_at() {
    let world = world(3);
    let source = "interface Note {\n  id: number;\n}\nconst what: string = 'a';\n\
        await Promise.all([\n  tools.lab.destroy_each({ what }),\n  tools.lab.confirm({}),\n]);";
    let paused = world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        gateway.result(paused.execution).await.unwrap().unwrap()
    });
    let lines: Vec<_> = paused.calls.iter().map(|call| call.line).collect();
    assert_eq!(lines, [Some(6), Some(7)]);
    world.life(async |gateway| {
        let open = by_call(gateway.open().await);
        let asked: Vec<_> = open.iter().map(|row| row.elicitation.line).collect();
        assert_eq!(asked, [Some(6), Some(7)]);
        let after = gateway.result(paused.execution).await.unwrap().unwrap();
        assert_eq!(after.calls.iter().map(|call| call.line).collect::<Vec<_>>(), lines);
    });
}

#[test]
fn time_and_chance_are_the_same_after_every_pause() {
    let value = |park: bool| {
        let world = world(3).set(|settings| settings.park_after = Duration::from_secs(5));
        world.life(async |gateway| {
            let mut result = gateway.runs(TWO).await;
            while result.paused().is_some() {
                tokio::time::sleep(Duration::from_secs(if park { 60 } else { 1 })).await;
                gateway.ann_says(&result, yes()).await.unwrap();
                result = gateway.wait(result.execution, Patience::UntilPaused).await.unwrap().unwrap();
            }
            result.value.unwrap()
        })
    };
    let (kept, parked) = (value(false), value(true));
    assert_eq!(kept["same"], parked["same"], "seeded once, with the script");
}

#[test]
fn a_script_that_was_told_of_a_denial_while_another_question_is_open_runs_on_at_once() {
    let world = world(3).set(|settings| settings.park_after = Duration::from_secs(5));
    let source = r#"
        const slow = tools.lab.destroy_each({ what: "slow" });
        const quick = await tools.lab.destroy_each({ what: "quick" }).catch((e) => e.code);
        await tools.lab.read({ what: quick });
        await slow;
        return quick;"#;
    world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(gateway.live(), 0);
        let open = gateway.open().await;
        let quick = open.iter().find(|row| row.elicitation.args.as_str().contains("quick")).unwrap();
        let target = Target::Elicitation(quick.elicitation.id);
        gateway.decide(says(ann(), target, Answer::Deny)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let now = gateway.result(paused.execution).await.unwrap().unwrap();
        assert_eq!(now.calls.iter().map(|c| c.status).collect::<Vec<_>>(), ["asked", "failed", "succeeded"]);
        assert_eq!((now.status, gateway.live()), (Status::Waiting, 0), "and is parked again");
        let journal = gateway.journal(paused.execution).await.unwrap();
        assert!(journal.iter().any(|e| matches!(e.body, EventBody::ScriptWaits { seen: 2 })), "{journal:#?}");
        gateway.ann_says(&paused, yes()).await.unwrap();
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!("denied")));
    });
}

#[test]
fn a_question_that_expires_throws_in_the_script_also_when_it_is_parked() {
    let world = world(3).set(|settings| {
        settings.park_after = Duration::from_secs(5);
        settings.expires = Duration::from_secs(600);
    });
    world.life(async |gateway| {
        let source = "try { await tools.lab.destroy({ what: 'x' }); } catch (e) { return e.code; }";
        let paused = gateway.runs(source).await;
        assert_eq!(gateway.end_of(&paused).await.value, Some(json!("expired")));
        assert!(world.ledger.effects().is_empty());
    });
}

#[test]
fn a_closing_gateway_leaves_a_script_where_it_is_and_the_next_takes_it_up() {
    let world = world(3);
    let source = "const a = await tools.lab.read({ what: 'a' }); await sleep(5000); return a.what;";
    let told = world.life(async |gateway| {
        let patience = Patience::AtMost(Duration::from_secs(1));
        let request =
            countersign_kernel::RunRequest { patience, ..countersign_testkit::world::script(source) };
        let told = gateway.run(request).await.unwrap();
        gateway.close(Duration::from_secs(5)).await;
        assert_eq!(gateway.live(), 0);
        told
    });
    world.life(async |gateway| {
        assert_eq!(gateway.end_of(&told).await.value, Some(json!("a")));
    });
}

#[test]
fn a_rule_that_denies_what_a_script_waits_for_withdraws_its_questions() {
    let world = world(3);
    let paused = world.life(async |gateway| gateway.runs(TWO).await);
    let rules = "[[rule]]\nmatch = \"lab.*\"\neffect = \"deny\"\n";
    let changed = world.clone().under(rules);
    changed.life(async |gateway| {
        assert!(gateway.ann_says(&paused, yes()).await.is_err(), "the policy is another");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(world.ledger.effects().is_empty());
    });
}

#[test]
fn a_scripts_time_is_that_of_its_journal_also_when_it_is_replayed_much_later() {
    let world = world(3).set(|settings| settings.park_after = Duration::from_secs(5));
    let source = r#"
        const times = [Date.now()];
        await tools.lab.read({ what: "a" });
        times.push(new Date().getTime());
        await tools.lab.destroy_each({ what: "b" });
        times.push(Date.now());
        return times;"#;
    world.life(async |gateway| {
        let paused = gateway.runs(source).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        gateway.ann_says(&paused, yes()).await.unwrap();
        let end = gateway.end_of(&paused).await;
        let journal = gateway.journal(end.execution).await.unwrap();
        let recorded = journal
            .iter()
            .filter(|event| matches!(event.body, EventBody::Started(_) | EventBody::CallSettled { .. }));
        let recorded: Vec<u64> = recorded.map(|event| event.at.as_millis()).collect();
        assert_eq!(end.value, Some(json!(recorded)));
    });
}

#[test]
fn a_question_is_asked_only_when_its_script_has_said_all_it_can() {
    let world = world(3);
    let source = r#"
        const second = tools.lab.nothing({}).catch(() => tools.lab.destroy_each({ what: "second" }));
        const first = tools.lab.destroy_each({ what: "first" });
        await Promise.all([first, second]);"#;
    let faults = Faults::none();
    world.life_on(
        &faults,
        |builder| builder,
        async |gateway| {
            // The very first thing that is written of the script is its question.
            drop(faults.clone().and_at(faults.commits() + 1, Fault::CrashAfter));
            tokio::select! {
                biased;
                () = faults.until_crashed() => {}
                _ = gateway.runs(source) => {}
            }
        },
    );
    world.life(async |gateway| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(
            gateway.open().await.len(),
            2,
            "a crash at the question must not lose what the script says next"
        );
    });
}
