//! Users, whose tokens and logins are theirs, and what disabling one of them ends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::grant::Grant;
use countersign_core::ids::{LoginId, UserId};
use countersign_kernel::ports::{
    ElicitationFilter, ElicitationRow, GrantWrite, LoginRow, LoginWrite, Page, Requirement, Store,
    StoreError, TokenRow, TokenWrite, UserMay, UserRow, UserWrite, Write,
};
use countersign_sdk::{Principal, PrincipalId, Role};

use super::subject::{Subject, at, create, fresh, grants, live, token};

/// Every part of a user comes back, and so does what is changed about them.
pub async fn a_user_is_listed_as_they_were_added_and_changed(store: Arc<dyn Store>) {
    let user = added(&*store, vec![Role::Admin]).await;
    assert_eq!(found(&*store, user.id).await, user);
    change(&*store, &user, vec![Role::Approver], None).await;
    let changed = UserRow { roles: vec![Role::Approver], ..user.clone() };
    assert_eq!(found(&*store, user.id).await, changed);
    change(&*store, &user, vec![], Some(7)).await;
    let disabled = UserRow { roles: vec![], disabled_at: Some(at(7)), ..user };
    assert_eq!(found(&*store, disabled.id).await, disabled);
}

/// Another user of the same name is refused, and nothing of the change happens.
pub async fn no_two_users_have_the_same_name(store: Arc<dyn Store>) {
    let user = added(&*store, vec![]).await;
    let again = UserRow { id: fresh(UserId::from_random), ..user.clone() };
    let refused = store.commit(add(&again)).await;
    assert!(matches!(refused, Err(StoreError::NameTaken)), "{refused:?}");
    assert!(store.users().await.unwrap().items.iter().all(|user| user.id != again.id));
}

/// Unknown, disabled and, for decisions, those without a role are refused.
pub async fn a_change_needs_its_user_to_be_active(store: Arc<dyn Store>) {
    let (decider, reader) = (added(&*store, vec![Role::Approver]).await, added(&*store, vec![]).await);
    assert!(may(&*store, decider.id, UserMay::Decide).await && may(&*store, decider.id, UserMay::Act).await);
    assert!(may(&*store, reader.id, UserMay::Act).await);
    assert!(!may(&*store, reader.id, UserMay::Decide).await, "no role");
    assert!(!may(&*store, fresh(UserId::from_random), UserMay::Act).await, "nobody");
    change(&*store, &decider, vec![Role::Approver], Some(5)).await;
    assert!(!may(&*store, decider.id, UserMay::Act).await, "disabled");
    change(&*store, &decider, vec![Role::Approver], None).await;
    assert!(may(&*store, decider.id, UserMay::Decide).await, "enabled again");
}

/// A token ends with its time and with its user, and comes back with the user only.
pub async fn a_token_ends_with_its_time_and_with_its_user(store: Arc<dyn Store>) {
    let user = added(&*store, vec![Role::Approver]).await;
    let principal = Principal::agent("agent-of-somebody").unwrap().owned_by(principal_of(&user));
    let owned = TokenRow { principal, attended: true, expires_at: Some(at(100)), ..token(0) };
    store.commit(create(&owned)).await.unwrap();
    assert_eq!(store.token_by_hash(owned.hash).await.unwrap(), Some(owned.clone()));
    let good_at = async |ms| {
        let require = vec![Requirement::TokenLive { id: owned.id, now: at(ms) }];
        store.commit(Write { require, ..Write::default() }).await.is_ok()
    };
    assert!(good_at(99).await);
    assert!(!good_at(100).await, "the end is exclusive");
    change(&*store, &user, vec![Role::Approver], Some(5)).await;
    assert!(!good_at(50).await, "its user is disabled");
    change(&*store, &user, vec![Role::Approver], None).await;
    assert!(good_at(50).await);
}

/// The time of its use is kept, and a token of an earlier version can be given to a user.
pub async fn a_token_can_be_noted_as_used_and_adopted(store: Arc<dyn Store>) {
    let user = added(&*store, vec![Role::Admin]).await;
    let old = token(0);
    store.commit(create(&old)).await.unwrap();
    let principal = old.principal.clone().owned_by(principal_of(&user));
    let tokens = vec![
        TokenWrite::Adopt { id: old.id, principal: principal.clone() },
        TokenWrite::Used { id: old.id, at: at(8) },
    ];
    store.commit(Write { tokens, ..Write::default() }).await.unwrap();
    let adopted = TokenRow { principal, last_used_at: Some(at(8)), ..old };
    assert_eq!(store.token_by_hash(adopted.hash).await.unwrap(), Some(adopted.clone()));
    change(&*store, &user, vec![], Some(9)).await;
    let refused = store.commit(Write { require: vec![live(&adopted)], ..Write::default() }).await;
    assert!(matches!(refused, Err(StoreError::TokenRevoked(_))), "{refused:?}");
}

/// A remembered approval counts only while its giver may decide.
pub async fn a_grant_is_dead_while_its_giver_may_not_decide(store: Arc<dyn Store>) {
    let (user, subject) = (added(&*store, vec![Role::Approver]).await, Subject::new());
    let grant = Grant { by: principal_of(&user), ..subject.grant() };
    store.commit(grants(vec![GrantWrite::Give(grant.clone())])).await.unwrap();
    let used =
        async || store.commit(grants(vec![GrantWrite::Use { id: grant.id, now: at(1) }])).await.is_ok();
    assert!(used().await);
    change(&*store, &user, vec![], None).await;
    assert!(!used().await, "the giver has no role any more");
    change(&*store, &user, vec![Role::Approver], Some(5)).await;
    assert!(!used().await, "the giver is disabled");
    change(&*store, &user, vec![Role::Approver], None).await;
    assert!(used().await);
}

/// By its time, by being ended, with its token and with its user; ending is for good.
pub async fn a_login_ends_with_its_time_its_token_and_its_user(store: Arc<dyn Store>) {
    let user = added(&*store, vec![Role::Approver]).await;
    let with = token(0);
    store.commit(create(&with)).await.unwrap();
    let (plain, by_token, ended) = (
        began(&*store, &user, None).await,
        began(&*store, &user, Some(&with)).await,
        began(&*store, &user, None).await,
    );
    assert_eq!(store.login(plain.id).await.unwrap(), Some(plain.clone()));
    for login in [&plain, &by_token, &ended] {
        assert!(is_live(&*store, login, 99).await);
        assert!(!is_live(&*store, login, 100).await, "the end is exclusive");
    }
    store.commit(super::subject::revoke(&with)).await.unwrap();
    assert!(!is_live(&*store, &by_token, 50).await, "its token is revoked");
    for ms in [20, 30] {
        let logins = vec![LoginWrite::End { id: ended.id, at: at(ms) }];
        store.commit(Write { logins, ..Write::default() }).await.unwrap();
    }
    assert_eq!(store.login(ended.id).await.unwrap().unwrap().ended_at, Some(at(20)));
    assert!(!is_live(&*store, &ended, 50).await);
    change(&*store, &user, vec![Role::Approver], Some(40)).await;
    assert!(!is_live(&*store, &plain, 50).await, "its user is disabled");
    change(&*store, &user, vec![Role::Approver], None).await;
    assert!(!is_live(&*store, &plain, 50).await, "disabling ended it for good");
}

/// Questions of one user are found, in all sessions and from all requesters.
pub async fn earlier_questions_about_the_same_are_found_by_subject_and_owner(store: Arc<dyn Store>) {
    let (ann, bob) =
        (principal_of(&added(&*store, vec![]).await), principal_of(&added(&*store, vec![]).await));
    let mut asked = Vec::new();
    for owner in [&ann, &ann, &bob] {
        let subject = Subject::new();
        let question = ElicitationRow { owner: Some(owner.clone()), ..subject.elicitation(3, 90) };
        let mut write = subject.ask(vec![question.clone()]);
        write.journal.as_mut().unwrap().row.owner = Some(owner.clone());
        store.commit(write).await.unwrap();
        asked.push(question);
    }
    let subject = asked[0].elicitation.subject();
    assert_eq!(subject, asked[2].elicitation.subject(), "the same tool and arguments");
    let filter = ElicitationFilter {
        subject: Some(subject),
        owner: Some(ann.clone()),
        ..ElicitationFilter::default()
    };
    let rows = store.elicitations(filter, Page::first(10)).await.unwrap().items;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.owner.as_ref() == Some(&ann) && asked.contains(row)), "{rows:?}");
}

async fn added(store: &dyn Store, roles: Vec<Role>) -> UserRow {
    let id = fresh(UserId::from_random);
    let user = UserRow { id, name: format!("name of {id}"), roles, created_at: at(3), disabled_at: None };
    store.commit(add(&user)).await.unwrap();
    user
}

fn add(user: &UserRow) -> Write {
    Write { users: vec![UserWrite::Create(user.clone())], ..Write::default() }
}

async fn found(store: &dyn Store, id: UserId) -> UserRow {
    store.users().await.unwrap().items.into_iter().find(|user| user.id == id).unwrap()
}

async fn change(store: &dyn Store, user: &UserRow, roles: Vec<Role>, disabled_ms: Option<u64>) {
    let users = vec![UserWrite::Change { id: user.id, roles, disabled_at: disabled_ms.map(at) }];
    store.commit(Write { users, ..Write::default() }).await.unwrap();
}

async fn may(store: &dyn Store, id: UserId, may: UserMay) -> bool {
    match store.commit(Write { require: vec![Requirement::User { id, may }], ..Write::default() }).await {
        Ok(_) => true,
        Err(StoreError::UserInactive(refused)) => {
            assert_eq!(refused, id);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

async fn began(store: &dyn Store, user: &UserRow, token: Option<&TokenRow>) -> LoginRow {
    let (id, token) = (fresh(LoginId::from_random), token.map(|token| token.id));
    let login = LoginRow { id, user: user.id, token, began_at: at(1), expires_at: at(100), ended_at: None };
    store.commit(Write { logins: vec![LoginWrite::Begin(login.clone())], ..Write::default() }).await.unwrap();
    login
}

async fn is_live(store: &dyn Store, login: &LoginRow, ms: u64) -> bool {
    let require = vec![Requirement::LoginLive { id: login.id, now: at(ms) }];
    store.commit(Write { require, ..Write::default() }).await.is_ok()
}

fn principal_of(user: &UserRow) -> PrincipalId {
    PrincipalId::parse(&user.id.to_string()).unwrap()
}
