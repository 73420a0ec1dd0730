//! Everything is bounded (R16): at a bound the script ends with a clear code, and nothing is lost.

use std::time::Duration;

use countersign_core::bounds;
use countersign_core::execution::Status;
use countersign_kernel::{Patience, RunRequest};
use countersign_testkit::world::{InTests as _, script};
use serde_json::json;

use crate::fixture::world;

async fn failure(gateway: &countersign_kernel::Gateway, source: &str) -> String {
    let result = gateway.runs(source).await;
    assert_eq!(result.status, Status::Failed, "{result:?}");
    result.error.unwrap().code
}

#[test]
fn a_source_at_its_bound_runs_and_one_byte_more_is_refused() {
    world(1).life(async |gateway| {
        let tail = "\nreturn 1;";
        let at = format!("//{}{tail}", "x".repeat(bounds::MAX_SCRIPT_BYTES - 2 - tail.len()));
        assert_eq!(at.len(), bounds::MAX_SCRIPT_BYTES);
        assert_eq!(gateway.runs(&at).await.value, Some(json!(1)));
        let over = gateway.run(script(&format!("{at} "))).await.unwrap_err();
        assert_eq!(over.code(), "script_too_long");
    });
}

#[test]
fn one_call_more_than_it_may_make_ends_a_script() {
    world(1).life(async |gateway| {
        let source =
            "for (let i = 0; i < 10001; i++) tools.lab.read({ what: 'x' }).catch(() => {}); return 1;";
        assert_eq!(failure(&gateway, source).await, "too_many_calls");
    });
}

#[test]
fn as_many_calls_as_it_may_make_are_made() {
    world(1).life(async |gateway| {
        let source = "let n = 0; for (; n < 10000; n++) await tools.lab.read({ what: 'x' }); return n;";
        let result = gateway.runs(source).await;
        assert_eq!(result.value, Some(json!(10_000)), "{:?}", result.error);
    });
}

#[test]
fn as_many_calls_side_by_side_as_it_may_make_all_come_back() {
    world(1).life(async |gateway| {
        let source = "return (await Promise.all(Array.from({ length: 10000 }, () => tools.lab.read({ what: 'x' })))).length;";
        let result = gateway.runs(source).await;
        assert_eq!(result.value, Some(json!(10_000)), "{:?}", result.error);
    });
}

#[test]
fn results_that_fill_the_journal_end_the_script_though_it_asks_for_nothing_more() {
    world(1).life(async |gateway| {
        let source = r#"
            const what = "x".repeat(500 * 1000);
            await Promise.all(Array.from({ length: 90 }, () => tools.lab.read({ what }).then(() => 0)));
            return 1;"#;
        assert_eq!(failure(&gateway, source).await, "journal_full");
    });
}

#[test]
fn a_value_that_is_too_large_is_an_error_the_script_can_catch_and_its_own_end_is_not() {
    world(1).life(async |gateway| {
        let source = r#"
            const big = "x".repeat(1024 * 1024);
            try { await tools.lab.read({ what: big }); } catch (e) { return e.code; }"#;
        assert_eq!(gateway.runs(source).await.value, Some(json!("value_too_large")));
        assert_eq!(failure(&gateway, r#"return "x".repeat(1024 * 1024);"#).await, "value_too_large");
        let fits = gateway.runs(r#"return "x".repeat(1024 * 1024 - 2);"#).await;
        assert!(fits.success(), "{:?}", fits.error);
    });
}

#[test]
fn a_script_that_fills_its_journal_ends_and_says_so() {
    world(1).life(async |gateway| {
        let source = r#"
            const what = "x".repeat(1000 * 1000);
            for (let i = 0; i < 100; i++) await tools.lab.read({ what });
            return 1;"#;
        assert_eq!(failure(&gateway, source).await, "journal_full");
    });
}

#[test]
fn a_script_that_eats_memory_or_computes_without_end_ends_with_its_code_and_the_next_one_runs() {
    world(1).life(async |gateway| {
        let hog = "const all = []; for (;;) all.push(new Array(100000).fill(1));";
        assert_eq!(failure(&gateway, hog).await, "out_of_memory");
        assert!(gateway.runs("return 1;").await.success());
    });
}

#[test]
fn more_open_questions_than_a_session_may_have_are_an_error_in_the_script() {
    let world = world(1).set(|settings| settings.max_pending_per_session = 2);
    world.life(async |gateway| {
        let source = r#"
            const all = ["a", "b", "c"].map((what) => tools.lab.destroy_each({ what }).catch((e) => e.code));
            return await all[2];"#;
        let result = gateway.runs(source).await;
        let end = gateway.end_of(&result).await;
        assert_eq!(end.value, Some(json!("too_many_pending")), "{:?}", end.error);
    });
}

#[test]
fn more_scripts_than_memory_is_meant_for_are_told_to_come_back_and_parked_ones_do_not_count() {
    let world = world(1).set(|settings| {
        // Of which one principal gets half.
        settings.max_live_scripts = 4;
        settings.park_after = Duration::from_secs(5);
    });
    world.life(async |gateway| {
        let paused = gateway.runs("await tools.lab.destroy({ what: 'x' });").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((paused.pending.len(), gateway.live()), (1, 0), "parked");
        let sleeps = || RunRequest {
            patience: Patience::AtMost(Duration::from_secs(60)),
            ..script("await sleep(1e6);")
        };
        for _ in 0..2 {
            assert_eq!(gateway.run(sleeps()).await.unwrap().status, Status::Running);
        }
        let refused = gateway.run(sleeps()).await.unwrap_err();
        assert_eq!(refused.code(), "busy");
        assert!(refused.to_string().contains("try again in 5 s"), "{refused}");
        tokio::time::sleep(Duration::from_secs(2_000)).await;
        assert!(gateway.runs("return 1;").await.success(), "and later there is room again");
    });
}
