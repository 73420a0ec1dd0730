//! Sessions and tokens.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::digest::Digest;
use countersign_core::grant::Grant;
use countersign_core::ids::TokenId;
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{
    ExecutionFilter, GrantWrite, Page, Requirement, SessionRow, SessionSummary, Store, StoreError, TokenRow,
    TokenWrite, Write,
};
use countersign_sdk::PrincipalId;

use super::subject::{Subject, at, create, fresh, fresh_principal, fresh_session, grants, revoke, token};

/// Also where another principal or client opens it again.
pub async fn opening_a_session_again_changes_nothing(store: Arc<dyn Store>) {
    let id = fresh_session();
    assert_eq!(store.session(&id).await.unwrap(), None);
    let first = SessionRow {
        id: id.clone(),
        principal: fresh_principal(),
        client: "a client".into(),
        opened_at: at(1),
    };
    let open = |row: &SessionRow| Write { session: Some(row.clone()), ..Write::default() };
    store.commit(open(&first)).await.unwrap();
    let again = SessionRow {
        principal: fresh_principal(),
        client: "another".into(),
        opened_at: at(2),
        ..first.clone()
    };
    store.commit(open(&again)).await.unwrap();
    assert_eq!(store.session(&id).await.unwrap(), Some(first));
}

/// At the edge: one below the bound lets through, the bound itself refuses, opening again counts once, others have their own.
pub async fn a_principal_has_fewer_sessions_than_its_bound(store: Arc<dyn Store>) {
    let (ann, bob) = (fresh_principal(), fresh_principal());
    let row = |principal: &PrincipalId| SessionRow {
        id: fresh_session(),
        principal: principal.clone(),
        client: "a client".into(),
        opened_at: at(1),
    };
    let open = |row: &SessionRow, bound: usize| Write {
        require: vec![Requirement::SessionsBelow { principal: row.principal.clone(), bound }],
        session: Some(row.clone()),
        ..Write::default()
    };
    let is_refused = async |row: SessionRow, bound: usize| {
        let refused = store.commit(open(&row, bound)).await;
        assert!(
            matches!(refused, Err(StoreError::TooManySessions { bound: b }) if b == bound),
            "{refused:?}"
        );
        assert_eq!(store.session(&row.id).await.unwrap(), None);
    };
    is_refused(row(&ann), 0).await;
    let first = row(&ann);
    store.commit(open(&first, 1)).await.unwrap();
    is_refused(row(&ann), 1).await;
    store.commit(open(&first, 2)).await.unwrap();
    store.commit(open(&SessionRow { principal: bob.clone(), ..first.clone() }, 2)).await.unwrap();
    store.commit(open(&row(&ann), 2)).await.unwrap();
    is_refused(row(&ann), 2).await;
    store.commit(open(&row(&bob), 1)).await.unwrap();
}

/// The last that the store got to know comes first; one at a time in the same order, and undisturbed by new ones.
pub async fn sessions_are_listed_newest_first(store: Arc<dyn Store>) {
    let mut opened = Vec::new();
    for ms in [5, 1, 9, 1, 5] {
        opened.insert(0, open(&*store, ms).await);
    }
    let rows = every_session(&*store, 1_000).await;
    let ours: Vec<SessionRow> =
        rows.iter().map(|of| &of.row).filter(|row| opened.contains(row)).cloned().collect();
    assert_eq!(ours, opened);
    assert_eq!(every_session(&*store, 1).await, rows, "one at a time");

    let first = store.sessions(at(0), Page::first(2)).await.unwrap();
    open(&*store, 99).await;
    let rest = store.sessions(at(0), Page { cursor: first.next.clone(), limit: 1_000 }).await.unwrap();
    let again: Vec<SessionSummary> = first.items.into_iter().chain(rest.items).collect();
    assert_eq!(again, rows[..again.len()], "what is opened later is ahead of where the list began");
    assert!(again.len() >= opened.len());
}

/// Neither those that ran out of uses or time, nor those whose giver's token was revoked.
pub async fn a_session_is_listed_with_the_number_of_its_live_grants(store: Arc<dyn Store>) {
    let (session, other) = (open(&*store, 1).await, open(&*store, 1).await);
    let (good, bad) = (token(0), token(0));
    store.commit(create(&good)).await.unwrap();
    store.commit(create(&bad)).await.unwrap();
    let subject = Subject { session: session.id.clone(), ..Subject::new() };
    let given = [
        subject.grant(),
        Grant { uses_left: Some(1), ..subject.grant() },
        Grant { expires_at: Some(at(11)), token: Some(good.id), ..subject.grant() },
        Grant { uses_left: Some(0), ..subject.grant() },
        Grant { expires_at: Some(at(10)), ..subject.grant() },
        Grant { token: Some(bad.id), ..subject.grant() },
        Grant { session: other.id.clone(), ..subject.grant() },
    ];
    store.commit(grants(given.map(GrantWrite::Give).into())).await.unwrap();
    store.commit(revoke(&bad)).await.unwrap();
    for (now, live) in [(at(9), 4), (at(10), 3), (at(11), 2)] {
        assert_eq!(live_grants(&*store, &session, now).await, live, "{now}");
        assert_eq!(live_grants(&*store, &other, now).await, 1);
    }
    store.commit(grants(vec![GrantWrite::Clear(session.id.clone())])).await.unwrap();
    assert_eq!(live_grants(&*store, &session, at(9)).await, 0);
}

/// Garbage, a cut cursor, and one of another list.
pub async fn a_foreign_cursor_finds_no_sessions(store: Arc<dyn Store>) {
    let subject = Subject::new();
    for _ in 0..2 {
        open(&*store, 1).await;
        store.commit(subject.sibling().start()).await.unwrap();
    }
    let filter = ExecutionFilter { requester: Some(subject.requester), ..Default::default() };
    let of_executions = store.executions(filter, Page::first(1)).await.unwrap().next.unwrap();
    let good = store.sessions(at(0), Page::first(1)).await.unwrap().next.unwrap();
    for cursor in
        ["", "s", "next", "é", &of_executions, &good[1..], &good[..good.len() - 1], &format!("{good}0")]
    {
        let page = Page { cursor: Some(cursor.to_owned()), limit: 1 };
        let refused = store.sessions(at(0), page).await;
        assert!(matches!(refused, Err(StoreError::BadCursor)), "{cursor:?}: {refused:?}");
    }
}

/// Revoking again keeps the first moment; revoking an unknown one changes nothing.
pub async fn a_token_is_found_by_its_hash_revoked_or_not(store: Arc<dyn Store>) {
    let token = token(0);
    assert_eq!(store.token_by_hash(token.hash).await.unwrap(), None);
    store.commit(create(&token)).await.unwrap();
    assert_eq!(store.token_by_hash(token.hash).await.unwrap(), Some(token.clone()));
    assert_eq!(store.token_by_hash(fresh(|bits| Digest::of(&bits))).await.unwrap(), None);

    store.commit(revoke(&token)).await.unwrap();
    let later = TokenWrite::Revoke { id: token.id, at: at(99) };
    let unknown = TokenWrite::Revoke { id: fresh(TokenId::from_random), at: at(99) };
    store.commit(Write { tokens: vec![later, unknown], ..Write::default() }).await.unwrap();
    let revoked = TokenRow { revoked_at: Some(at(9)), ..token.clone() };
    assert_eq!(store.token_by_hash(token.hash).await.unwrap(), Some(revoked));
}

/// Revoked ones too.
pub async fn tokens_are_listed_oldest_first(store: Arc<dyn Store>) {
    let tokens = [token(30), token(10), token(20)];
    for token in &tokens {
        store.commit(create(token)).await.unwrap();
    }
    store.commit(revoke(&tokens[2])).await.unwrap();
    let listed = store.tokens().await.unwrap().items;
    assert!(listed.is_sorted_by_key(|token| token.created_at));
    let ours: Vec<TokenId> =
        listed.iter().map(|t| t.id).filter(|id| tokens.iter().any(|t| t.id == *id)).collect();
    assert_eq!(ours, [tokens[1].id, tokens[2].id, tokens[0].id]);
}

/// A session that was opened so many milliseconds after the beginning.
async fn open(store: &dyn Store, ms: u64) -> SessionRow {
    let (id, principal) = (fresh_session(), fresh_principal());
    let row = SessionRow { id, principal, client: "a client".into(), opened_at: at(ms) };
    store.commit(Write { session: Some(row.clone()), ..Write::default() }).await.unwrap();
    row
}

async fn every_session(store: &dyn Store, limit: usize) -> Vec<SessionSummary> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.sessions(at(0), Page { cursor, limit }).await.unwrap();
        assert!(page.items.len() <= limit && (page.next.is_none() || !page.items.is_empty()));
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

async fn live_grants(store: &dyn Store, session: &SessionRow, now: Timestamp) -> u64 {
    let mut cursor = None;
    loop {
        let page = store.sessions(now, Page { cursor, limit: 1_000 }).await.unwrap();
        if let Some(found) = page.items.iter().find(|of| of.row == *session) {
            return found.live_grants;
        }
        cursor = page.next;
        assert!(cursor.is_some(), "the session is not listed");
    }
}
