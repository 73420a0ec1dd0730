//! Grants: used as often and as long as they were given for, and not once more.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::grant::Grant;
use countersign_core::ids::{GrantId, TokenId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{GrantWrite, Store, StoreError};

use super::subject::{Subject, at, create, fresh, grants, revoke, token};

/// And a spent grant stays on the list, with nothing left.
pub async fn a_grant_is_used_until_its_uses_run_out(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let grant = Grant { uses_left: Some(2), ..subject.grant() };
    give(&*store, &grant).await;
    for left in [1, 0] {
        use_at(&*store, grant.id, at(1)).await.unwrap();
        let expected = Grant { uses_left: Some(left), ..grant.clone() };
        assert_eq!(store.grants(&subject.session).await.unwrap(), [expected]);
    }
    is_gone(&*store, grant.id, at(1)).await;
    assert_eq!(store.grants(&subject.session).await.unwrap()[0].uses_left, Some(0));

    let never = Grant { uses_left: Some(0), ..subject.grant() };
    give(&*store, &never).await;
    is_gone(&*store, never.id, at(1)).await;
}

/// No number of uses was given, so none runs out.
pub async fn a_grant_without_bound_is_used_again_and_again(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let grant = subject.grant();
    give(&*store, &grant).await;
    for ms in 0..5 {
        use_at(&*store, grant.id, at(ms)).await.unwrap();
    }
    assert_eq!(store.grants(&subject.session).await.unwrap(), [grant]);
}

/// From its expiry on it covers nothing; it stays on the list.
pub async fn a_grant_ends_at_its_expiry(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let grant = Grant { expires_at: Some(at(10)), ..subject.grant() };
    give(&*store, &grant).await;
    use_at(&*store, grant.id, at(9)).await.unwrap();
    is_gone(&*store, grant.id, at(10)).await;
    is_gone(&*store, grant.id, at(11)).await;
    assert_eq!(store.grants(&subject.session).await.unwrap(), [grant]);
}

/// Also at a time before its expiry: clocks go back.
pub async fn a_grant_that_was_found_expired_is_gone_at_every_time(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let (grant, other) = (
        Grant { expires_at: Some(at(10)), ..subject.grant() },
        Grant { expires_at: Some(at(10)), ..subject.grant() },
    );
    give(&*store, &grant).await;
    give(&*store, &other).await;
    for _ in 0..2 {
        store.commit(grants(vec![GrantWrite::Expire(grant.id)])).await.unwrap();
    }
    is_gone(&*store, grant.id, at(1)).await;
    use_at(&*store, other.id, at(1)).await.unwrap();
    let listed = store.grants(&subject.session).await.unwrap();
    assert_eq!(listed, [Grant { uses_left: Some(0), ..grant }, other], "it stays on the list");
}

/// Forgetting what is not there changes nothing.
pub async fn a_revoked_grant_is_gone(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let (grant, other) = (subject.grant(), subject.grant());
    give(&*store, &grant).await;
    give(&*store, &other).await;
    for _ in 0..2 {
        store.commit(grants(vec![GrantWrite::Revoke(grant.id)])).await.unwrap();
        is_gone(&*store, grant.id, at(1)).await;
        assert_eq!(store.grants(&subject.session).await.unwrap(), std::slice::from_ref(&other));
    }
    is_gone(&*store, fresh(GrantId::from_random), at(1)).await;
}

/// All of a session, none of another.
pub async fn clearing_a_session_forgets_its_grants_and_no_others(store: Arc<dyn Store>) {
    let (subject, other) = (Subject::new(), Subject::new());
    let (first, second, kept) = (subject.grant(), subject.grant(), other.grant());
    for grant in [&first, &second, &kept] {
        give(&*store, grant).await;
    }
    store.commit(grants(vec![GrantWrite::Clear(subject.session.clone())])).await.unwrap();
    assert_eq!(store.grants(&subject.session).await.unwrap(), []);
    assert_eq!(store.grants(&other.session).await.unwrap(), std::slice::from_ref(&kept));
    is_gone(&*store, first.id, at(1)).await;
    use_at(&*store, kept.id, at(1)).await.unwrap();
}

/// And one given with an unknown token.
pub async fn a_grant_given_with_a_token_since_revoked_is_dead(store: Arc<dyn Store>) {
    let (subject, token) = (Subject::new(), token(0));
    store.commit(create(&token)).await.unwrap();
    let grant = Grant { token: Some(token.id), ..subject.grant() };
    let stray = Grant { token: Some(fresh(TokenId::from_random)), ..subject.grant() };
    give(&*store, &grant).await;
    give(&*store, &stray).await;
    use_at(&*store, grant.id, at(1)).await.unwrap();
    store.commit(revoke(&token)).await.unwrap();
    is_gone(&*store, grant.id, at(1)).await;
    is_gone(&*store, stray.id, at(1)).await;
}

/// A grant without an end, and one whose uses ran out, are never due.
pub async fn a_grant_is_due_at_its_expiry_until_it_is_recorded_as_expired(store: Arc<dyn Store>) {
    let before = store.next_expiry().await.unwrap();
    let subject = Subject::new();
    let ending = |ms: u64, uses_left| Grant {
        id: fresh(GrantId::from_random),
        expires_at: Some(Timestamp::from_millis(ms)),
        uses_left,
        ..subject.grant()
    };
    let (late, early, spent) = (ending(6, None), ending(5, Some(2)), ending(4, Some(0)));
    let endless = Grant { id: fresh(GrantId::from_random), expires_at: None, ..subject.grant() };
    for grant in [&late, &early, &spent, &endless] {
        give(&*store, grant).await;
    }
    let due = async |ms, limit| store.due_grants(Timestamp::from_millis(ms), limit).await.unwrap();
    let listed = |grant: &Grant| (grant.id, subject.session.clone());
    assert_eq!(store.next_expiry().await.unwrap(), Some(Timestamp::from_millis(5)));
    assert_eq!(due(4, 9).await, []);
    assert_eq!(due(6, 9).await, [listed(&early), listed(&late)]);
    assert_eq!(due(6, 1).await, [listed(&early)]);
    for grant in [&early, &late] {
        store.commit(grants(vec![GrantWrite::Expire(grant.id)])).await.unwrap();
        assert!(!due(9, 9).await.contains(&listed(grant)));
    }
    assert_eq!(store.next_expiry().await.unwrap(), before);
}

/// Changes of grants happen in order, and together.
pub async fn a_change_that_uses_a_grant_twice_needs_two_uses(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let grant = Grant { uses_left: Some(3), ..subject.grant() };
    let twice = || vec![GrantWrite::Use { id: grant.id, now: at(1) }; 2];
    let given: Vec<GrantWrite> = std::iter::once(GrantWrite::Give(grant.clone())).chain(twice()).collect();
    store.commit(grants(given)).await.unwrap();
    let refused = store.commit(grants(twice())).await;
    assert!(matches!(refused, Err(StoreError::GrantGone(id)) if id == grant.id), "{refused:?}");
    assert_eq!(store.grants(&subject.session).await.unwrap()[0].uses_left, Some(1), "nothing of it happened");

    let after_revoking = vec![GrantWrite::Revoke(grant.id), GrantWrite::Use { id: grant.id, now: at(1) }];
    assert!(matches!(store.commit(grants(after_revoking)).await, Err(StoreError::GrantGone(_))));
    use_at(&*store, grant.id, at(1)).await.unwrap();
}

async fn give(store: &dyn Store, grant: &Grant) {
    store.commit(grants(vec![GrantWrite::Give(grant.clone())])).await.unwrap();
}

async fn use_at(store: &dyn Store, id: GrantId, now: Timestamp) -> Result<(), StoreError> {
    store.commit(grants(vec![GrantWrite::Use { id, now }])).await.map(|_| ())
}

async fn is_gone(store: &dyn Store, id: GrantId, now: Timestamp) {
    let refused = use_at(store, id, now).await;
    assert!(matches!(refused, Err(StoreError::GrantGone(gone)) if gone == id), "{refused:?}");
}
