//! Expiry is told by the clock, whatever the store fails to read in between.

use std::time::Duration;

use countersign_kernel::Gateway;
use countersign_testkit::world::{InTests, World};
use serde_json::json;

use super::{note, on_a_held_store};
use crate::held_store::Read;

const HOUR: Duration = Duration::from_secs(3_600);
const RULES: &str = "[[rule]]\nmatch = \"lab.put\"\neffect = \"ask\"\nexpires = \"2h\"\n";

async fn open_after(gateway: &Gateway, time: Duration) -> usize {
    tokio::time::sleep(time).await;
    gateway.open().await.len()
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_once_does_not_silence_expiry() {
    for (read, times) in [(Read::Due, 1), (Read::NextExpiry, 1), (Read::NextExpiry, 20), (Read::Due, 20)] {
        let world = World::new(1).under(RULES).set(|s| s.expires = HOUR);
        let (gateway, store) = on_a_held_store(&world).await;
        let first = gateway.asks("lab.destroy", note()).await;
        let second = gateway.asks("lab.put", note()).await;
        store.fail_reads(read, times);
        assert_eq!(
            open_after(&gateway, HOUR + Duration::from_secs(30)).await,
            1,
            "{read:?}: the first expired"
        );
        assert_eq!(store.reads_to_fail(read), 0, "{read:?}: it was read");
        assert_eq!(
            open_after(&gateway, HOUR).await,
            0,
            "{read:?}: and so did the second, though nobody asked anew"
        );
        for one in [first, second] {
            assert_eq!(gateway.end_of(&one).await.error.unwrap().code, "expired", "{read:?}");
        }
    }
}

/// The store is asked when the next question expires, and while its answer is on its way another question is asked.
#[tokio::test(start_paused = true)]
async fn a_question_asked_while_the_next_expiry_is_looked_up_expires_in_its_time() {
    let world = World::new(1).set(|s| s.expires = HOUR);
    let (gateway, store) = on_a_held_store(&world).await;
    gateway.asks("lab.destroy_each", json!({ "what": "first" })).await;
    tokio::time::sleep(HOUR - Duration::from_secs(1)).await;
    store.hold_read(Read::NextExpiry);
    assert_eq!(open_after(&gateway, Duration::from_secs(5)).await, 0, "the first expired");
    let second = gateway.asks("lab.destroy_each", json!({ "what": "second" })).await;
    store.release_reads();
    assert_eq!(open_after(&gateway, HOUR + Duration::from_secs(5)).await, 0, "and so did the second");
    assert_eq!(gateway.end_of(&second).await.error.unwrap().code, "expired");
}
