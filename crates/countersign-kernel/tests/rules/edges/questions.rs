//! An answer belongs to one question.

use std::sync::Arc;

use countersign_core::event::Settlement;
use countersign_kernel::{Answer, Target};
use countersign_sdk::{Approval, Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::Nothing;
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, ann, says, yes};
use serde_json::{Value, json};

use super::{A_WHILE, CALL};

#[test]
fn a_retry_asks_anew_what_the_gates_approval_had_answered() {
    for about in ["nothing", "call", "same"] {
        let world = World::new(1);
        world.ledger.crash_at(CrashAt::BeforeEffect(0));
        let waiting = world.life(async |gateway| {
            let waiting = gateway.asks("lab.sure", json!({ "what": "x", "about": about })).await;
            gateway.ann_says(&waiting, yes()).await.unwrap();
            world.ledger.crashed().await;
            waiting
        });
        world.life(async |gateway| {
            gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
            tokio::time::sleep(A_WHILE).await;
            let open = gateway.open().await;
            assert_eq!(
                open.len(),
                1,
                "{about}: the person who had it run again answered none of its questions"
            );
            assert_eq!(open[0].elicitation.message, "Sure?");
            assert_eq!(world.ledger.effects(), [], "{about}");
            let target = Target::Elicitation(open[0].elicitation.id);
            gateway.decide(says(ann(), target, yes())).await.unwrap();
            assert!(gateway.end_of(&waiting).await.success(), "{about}");
        });
        assert_eq!(world.ledger.effects().len(), 1, "{about}");
    }
}

#[test]
fn a_no_to_the_question_of_a_retry_is_a_no() {
    let world = World::new(1);
    world.ledger.crash_at(CrashAt::BeforeEffect(0));
    let waiting = world.life(async |gateway| {
        let waiting = gateway.asks("lab.sure", json!({ "what": "x", "about": "call" })).await;
        gateway.ann_says(&waiting, yes()).await.unwrap();
        world.ledger.crashed().await;
        waiting
    });
    world.life(async |gateway| {
        gateway.settle(waiting.execution, CALL, Settlement::Retry, &ann()).await.unwrap();
        tokio::time::sleep(A_WHILE).await;
        let target = Target::Elicitation(gateway.open().await[0].elicitation.id);
        gateway.decide(says(ann(), target, Answer::Deny)).await.unwrap();
        assert_eq!(gateway.end_of(&waiting).await.value, Some(json!({ "done": false })));
    });
    assert_eq!(world.ledger.effects(), []);
}

/// Asks three times in the same words: about one thing, about another, and about that other once more.
fn asks_thrice() -> Plugin {
    let tool = Tool::new("own.thrice").name("Thrice").describe("Asks three times.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<Value, ToolError> {
            let mut said = Vec::new();
            for n in [1, 2, 2] {
                let question = Approval::new("May I?").args(json!({ "n": n }));
                said.push(ctx.elicit(question).await?.approved);
            }
            Ok(json!(said))
        },
    );
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

#[tokio::test(start_paused = true)]
async fn the_same_words_about_other_arguments_or_at_another_place_are_another_question() {
    let world = World::new(1);
    let gateway = world.start_with(world.builder(Arc::new(world.disk.clone())).plugin(asks_thrice())).await;
    let waiting = gateway.asks("own.thrice", json!({})).await;
    for (n, answer) in [(1, yes()), (2, Answer::Deny), (2, yes())] {
        // Each is answered after parking, so that the handler comes to what was answered before from its journal.
        tokio::time::sleep(A_WHILE).await;
        let open = gateway.open().await;
        assert_eq!(open.len(), 1);
        assert_eq!(open[0].elicitation.args.to_value(), json!({ "n": n }));
        gateway.decide(says(ann(), Target::Elicitation(open[0].elicitation.id), answer)).await.unwrap();
    }
    assert_eq!(gateway.end_of(&waiting).await.value, Some(json!([true, false, true])));
}
