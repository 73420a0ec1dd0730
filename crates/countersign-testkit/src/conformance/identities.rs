//! Sessions and tokens.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::digest::Digest;
use countersign_core::ids::TokenId;
use countersign_kernel::ports::{SessionRow, Store, TokenRow, TokenWrite, Write};

use super::subject::{at, create, fresh, fresh_principal, fresh_session, revoke, token};

/// Whoever opens it again, and as whatever client.
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
    let listed = store.tokens().await.unwrap();
    assert!(listed.is_sorted_by_key(|token| token.created_at));
    let ours: Vec<TokenId> =
        listed.iter().map(|t| t.id).filter(|id| tokens.iter().any(|t| t.id == *id)).collect();
    assert_eq!(ours, [tokens[1].id, tokens[2].id, tokens[0].id]);
}
