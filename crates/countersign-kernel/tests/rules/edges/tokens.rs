//! A token ends at its time, also where nothing of it is in memory.

use std::time::Duration;

use countersign_kernel::NewToken;
use countersign_sdk::{ExposeSecret, Role};
use countersign_testkit::world::World;

#[tokio::test(start_paused = true)]
async fn a_token_that_was_never_used_before_its_end_is_nobodys_after_it() {
    let world = World::new(1);
    let gateway = world.start().await;
    for (passed, counts) in [(59_999, true), (60_000, false)] {
        let end = gateway.now().after(Duration::from_secs(60));
        let new = NewToken::new(format!("laptop-{passed}"), Role::Agent).until(end);
        let minted = gateway.create_token(new, None).await.unwrap();
        world.clock.jump(passed);
        let caller = gateway.authenticate(minted.secret.expose_secret()).await.unwrap();
        assert_eq!(caller.is_some(), counts, "after {passed} ms");
    }
}
