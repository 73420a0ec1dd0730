//! The order in which scripts get places, wait for them, and give them back.

use super::*;
use futures_util::FutureExt as _;

fn principal(name: &str) -> PrincipalId {
    PrincipalId::parse(name).unwrap()
}

/// Takes a place that there must be right now.
fn at_once(places: &Arc<Places>, name: &str, claim: Claim) -> Place {
    places.take(&principal(name), claim).now_or_never().unwrap_or_else(|| panic!("{name} waits")).unwrap()
}

fn must_wait(places: &Arc<Places>, name: &str, claim: Claim) {
    assert!(places.take(&principal(name), claim).now_or_never().is_none(), "{name} got a place");
}

#[test]
fn one_gets_its_share_and_not_one_more_and_others_get_in_at_once() {
    // 16 places: 2 are kept, 14 are open, 7 are a share.
    let places = Places::new(16);
    let mine: Vec<Place> = (0..7).map(|_| at_once(&places, "agent:a", Claim::New)).collect();
    must_wait(&places, "agent:a", Claim::New);
    must_wait(&places, "agent:a", Claim::Continued);
    let _other = at_once(&places, "agent:b", Claim::New);
    drop(mine.into_iter().next());
    let _again = at_once(&places, "agent:a", Claim::New);
}

#[test]
fn what_was_approved_has_places_of_its_own_and_one_principal_gets_its_share_of_them() {
    let places = Places::new(16);
    let _full: Vec<Place> = ["agent:a", "agent:b"]
        .iter()
        .flat_map(|name| (0..7).map(|_| at_once(&places, name, Claim::New)).collect::<Vec<_>>())
        .collect();
    must_wait(&places, "agent:c", Claim::New);
    let _first = at_once(&places, "agent:a", Claim::Approved);
    must_wait(&places, "agent:a", Claim::Approved);
    let _second = at_once(&places, "agent:c", Claim::Approved);
    must_wait(&places, "agent:d", Claim::Approved);
}

#[test]
fn few_places_are_still_places() {
    let one = Places::new(1);
    let place = at_once(&one, "agent:a", Claim::New);
    must_wait(&one, "agent:b", Claim::Approved);
    drop(place);
    let two = Places::new(2);
    let _place = at_once(&two, "agent:a", Claim::New);
    must_wait(&two, "agent:b", Claim::New);
    let _approved = at_once(&two, "agent:b", Claim::Approved);
}

#[tokio::test(start_paused = true)]
async fn who_holds_fewer_places_is_served_first_and_what_was_approved_before_all() {
    let places = Places::new(4);
    let held: Vec<Place> =
        ["agent:a", "agent:b", "agent:c"].map(|name| at_once(&places, name, Claim::New)).into();
    let _kept = at_once(&places, "agent:a", Claim::Approved);
    let mut waiting: Vec<_> =
        [("agent:c", Claim::New), ("agent:d", Claim::New), ("agent:e", Claim::Approved)]
            .map(|(name, claim)| {
                let places = &places;
                Box::pin(async move { (name, places.take(&principal(name), claim).await) })
            })
            .into();
    for one in &mut waiting {
        assert!(one.as_mut().now_or_never().is_none());
    }
    let mut served = Vec::new();
    for place in held {
        drop(place);
        let (got, _, rest) = futures_util::future::select_all(waiting).await;
        waiting = rest;
        served.push((got.0, got.1.unwrap()));
    }
    let order: Vec<&str> = served.iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["agent:e", "agent:d", "agent:c"]);
}

#[test]
fn who_waits_behind_too_many_of_its_own_is_told_to_come_back_and_others_are_not() {
    let places = Places::new(1);
    let _taken = at_once(&places, "agent:a", Claim::New);
    let mut waiting: Vec<_> = (0..MOST_WAITING_OF_ONE)
        .map(|_| Box::pin(async { places.take(&principal("agent:a"), Claim::New).await }))
        .collect();
    for one in &mut waiting {
        assert!(one.as_mut().now_or_never().is_none());
    }
    let refused = places.take(&principal("agent:a"), Claim::New).now_or_never().unwrap();
    assert_eq!(refused.err(), Some(ScriptFault::Busy { retry_after_s: 5 }));
    must_wait(&places, "agent:a", Claim::Continued);
    must_wait(&places, "agent:b", Claim::New);
    waiting.pop();
    must_wait(&places, "agent:a", Claim::New);
}

#[tokio::test(start_paused = true)]
async fn one_that_rests_is_asked_for_its_place_and_only_one() {
    let places = Places::new(8);
    let mut held: Vec<Place> = (0..3).map(|_| at_once(&places, "agent:a", Claim::New)).collect();
    held[1..].iter_mut().for_each(Place::rest);
    let needed = |place: &Place| place.is_needed().now_or_never().is_some();
    tokio::time::sleep(SHORTEST_REST).await;
    assert!(!held.iter().any(needed), "nobody waits");
    let mut waits = Box::pin(async { places.take(&principal("agent:a"), Claim::New).await });
    assert!(waits.as_mut().now_or_never().is_none());
    let asked: Vec<bool> = held.iter().map(|place| *place.wanted.borrow() == Wanted::Yes).collect();
    assert_eq!(asked, [false, true, false], "the one that has rested longest");
    held[1].work();
    let asked: Vec<bool> = held.iter().map(|place| *place.wanted.borrow() == Wanted::Yes).collect();
    assert_eq!(asked, [false, false, true], "another, if the first has something to do");
    held[2].is_needed().await;
    drop(held);
    assert!(waits.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_short_rest_is_not_disturbed() {
    let places = Places::new(1);
    let mut held = at_once(&places, "agent:a", Claim::New);
    held.rest();
    let needed = held.is_needed();
    tokio::pin!(needed);
    let _waits = tokio::spawn({
        let places = Arc::clone(&places);
        async move { places.take(&principal("agent:b"), Claim::New).await }
    });
    let begun = Instant::now();
    needed.await;
    assert_eq!(begun.elapsed().as_millis() / 10, SHORTEST_REST.as_millis() / 10);
}

#[test]
fn a_place_given_to_somebody_who_left_goes_to_the_next() {
    let places = Places::new(1);
    let held = at_once(&places, "agent:a", Claim::New);
    let mut left = Box::pin(async { places.take(&principal("agent:b"), Claim::New).await });
    let mut stays = Box::pin(async { places.take(&principal("agent:c"), Claim::New).await });
    assert!(left.as_mut().now_or_never().is_none() && stays.as_mut().now_or_never().is_none());
    drop(held);
    drop(left);
    assert!(stays.now_or_never().is_some());
}
