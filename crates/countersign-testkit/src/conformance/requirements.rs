//! Requirements, and that a change which is refused for any reason leaves nothing behind.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::execution::Status;
use countersign_kernel::ports::{
    ElicitationRow, GrantWrite, Requirement, SessionRow, Store, StoreError, TokenRow, TokenWrite, Write,
};
use countersign_sdk::Outcome;

use super::subject::{Subject, at, create, decision, grants, live, revoke, step, token};

/// Unknown and revoked tokens refuse; a live one lets through.
pub async fn a_change_needs_its_token_to_be_live(store: Arc<dyn Store>) {
    let token = token(0);
    let with = |subject: Subject| Write { require: vec![live(&token)], ..subject.start() };
    let is_refused = async |subject: Subject| {
        let refused = store.commit(with(subject.clone())).await;
        assert!(matches!(refused, Err(StoreError::TokenRevoked(id)) if id == token.id), "{refused:?}");
        assert_eq!(store.execution(subject.id).await.unwrap(), None);
    };
    is_refused(Subject::new()).await;
    store.commit(create(&token)).await.unwrap();
    store.commit(with(Subject::new())).await.unwrap();
    store.commit(revoke(&token)).await.unwrap();
    is_refused(Subject::new()).await;
}

/// One below the bound lets through, the bound itself refuses wherever it is asked, a decision makes room, others have their own.
pub async fn a_requester_has_fewer_open_elicitations_than_its_bound_in_all_sessions(store: Arc<dyn Store>) {
    let first = Subject::new();
    let ask = |subject: &Subject, asked: ElicitationRow, open: usize| {
        let requester = subject.requester.clone();
        let require = vec![Requirement::RequesterPendingBelow { requester, open, bytes: usize::MAX }];
        Write { require, ..subject.ask(vec![asked]) }
    };
    let elsewhere = || Subject { session: Subject::new().session, ..first.sibling() };
    let is_refused = async |subject: Subject, bound: usize| {
        let refused = store.commit(ask(&subject, subject.elicitation(0, 90), bound)).await;
        assert!(
            matches!(refused, Err(StoreError::RequesterFull { open, .. }) if open == bound),
            "{refused:?}"
        );
        assert_eq!(store.execution(subject.id).await.unwrap(), None);
    };
    is_refused(first.sibling(), 0).await;
    let asked = first.elicitation(0, 90);
    store.commit(ask(&first, asked.clone(), 1)).await.unwrap();
    is_refused(elsewhere(), 1).await;
    let second = elsewhere();
    store.commit(ask(&second, second.elicitation(0, 90), 2)).await.unwrap();
    is_refused(first.sibling(), 2).await;
    let other = Subject::new();
    store.commit(ask(&other, other.elicitation(0, 90), 1)).await.unwrap();
    store.commit(first.decide(2, asked.elicitation.id, &decision(Outcome::Denied))).await.unwrap();
    let third = elsewhere();
    store.commit(ask(&third, third.elicitation(0, 90), 2)).await.unwrap();
}

/// The question that reaches the bound is let through, the next one is not; what is decided counts no more.
pub async fn a_requesters_open_elicitations_have_fewer_bytes_than_its_bound(store: Arc<dyn Store>) {
    const BOUND: usize = 10_000;
    let first = Subject::new();
    let ask = |subject: &Subject, message: usize| {
        let mut asked = subject.elicitation(0, 90);
        Arc::make_mut(&mut asked.elicitation).message = "m".repeat(message);
        let requester = subject.requester.clone();
        let require = vec![Requirement::RequesterPendingBelow { requester, open: usize::MAX, bytes: BOUND }];
        (asked.elicitation.id, Write { require, ..subject.ask(vec![asked]) })
    };
    let (small, large) = (first.sibling(), first.sibling());
    store.commit(ask(&small, 100).1).await.unwrap();
    let (id, write) = ask(&large, BOUND);
    store.commit(write).await.unwrap();
    let refused = store.commit(ask(&first.sibling(), 1).1).await;
    assert!(matches!(refused, Err(StoreError::RequesterFull { bytes: BOUND, .. })), "{refused:?}");
    store.commit(large.decide(2, id, &decision(Outcome::Approved))).await.unwrap();
    store.commit(ask(&first.sibling(), 1).1).await.unwrap();
}

/// At the edge: one below the bound lets through, the bound itself refuses, a decision makes room.
pub async fn a_session_has_fewer_open_elicitations_than_its_bound(store: Arc<dyn Store>) {
    let first = Subject::new();
    let ask = |subject: &Subject, asked: ElicitationRow, bound: usize| {
        let require = vec![Requirement::PendingBelow { session: subject.session.clone(), bound }];
        Write { require, ..subject.ask(vec![asked]) }
    };
    let is_refused = async |subject: Subject, bound: usize| {
        let refused = store.commit(ask(&subject, subject.elicitation(0, 90), bound)).await;
        assert!(matches!(refused, Err(StoreError::TooManyPending { bound: b }) if b == bound), "{refused:?}");
        assert_eq!(store.execution(subject.id).await.unwrap(), None);
    };
    is_refused(first.sibling(), 0).await;
    let asked = first.elicitation(0, 90);
    store.commit(ask(&first, asked.clone(), 1)).await.unwrap();
    is_refused(first.sibling(), 1).await;

    let second = first.sibling();
    let decided = ElicitationRow { decision: Some(decision(Outcome::Denied)), ..second.elicitation(0, 90) };
    let two = vec![second.elicitation(0, 90), decided];
    store.commit(Write { require: ask(&second, asked.clone(), 2).require, ..second.ask(two) }).await.unwrap();
    is_refused(first.sibling(), 2).await;

    let elsewhere = Subject::new();
    store.commit(ask(&elsewhere, elsewhere.elicitation(0, 90), 1)).await.unwrap();

    let version = 2;
    store.commit(first.decide(version, asked.elicitation.id, &decision(Outcome::Approved))).await.unwrap();
    let third = first.sibling();
    store.commit(ask(&third, third.elicitation(0, 90), 2)).await.unwrap();
    is_refused(first.sibling(), 2).await;
}

/// A change of everything there is, refused by each thing that can refuse.
pub async fn a_refused_change_changes_nothing(store: Arc<dyn Store>) {
    let holder = Subject::new().keyed("taken");
    store.commit(holder.ask(vec![holder.elicitation(0, 90)])).await.unwrap();
    let (revoked, spent) = (token(0), holder.grant());
    store.commit(create(&revoked)).await.unwrap();
    store.commit(revoke(&revoked)).await.unwrap();

    type Spoil = Box<dyn Fn(&mut Write)>;
    let session = holder.session.clone();
    let spoils: Vec<(&str, Spoil)> = vec![
        ("a revoked token", Box::new(move |write| write.require.push(live(&revoked)))),
        (
            "too many pending",
            Box::new(move |write| {
                write.require.push(Requirement::PendingBelow { session: session.clone(), bound: 1 });
            }),
        ),
        (
            "a grant that is gone",
            Box::new(move |write| {
                write.grants.push(GrantWrite::Use { id: spent.id, now: at(0) });
            }),
        ),
        ("a conflict", Box::new(|write| write.journal.iter_mut().for_each(|journal| journal.expected = 7))),
        (
            "a taken key",
            Box::new(|write| {
                write.journal.iter_mut().for_each(|journal| journal.row.key = Some("taken".into()));
            }),
        ),
    ];
    for (what, spoil) in spoils {
        let everything = Everything::new(&holder);
        let mut write = everything.write();
        spoil(&mut write);
        let refused = store.commit(write).await;
        let named = matches!(
            (what, &refused),
            ("a revoked token", Err(StoreError::TokenRevoked(_)))
                | ("too many pending", Err(StoreError::TooManyPending { bound: 1 }))
                | ("a grant that is gone", Err(StoreError::GrantGone(_)))
                | ("a conflict", Err(StoreError::Conflict { expected: 7, actual: 0 }))
                | ("a taken key", Err(StoreError::KeyTaken(_)))
        );
        assert!(named, "{what}: {refused:?}");
        everything.is_absent(&*store, what).await;
    }
    let everything = Everything::new(&holder);
    store.commit(everything.write()).await.unwrap();
    everything.is_present(&*store).await;
}

/// Ids that exist already, elicitations that are not there to be decided: no change that core lets through, but whole or
/// not at all holds for it too, and its neighbours come through.
pub async fn a_change_that_contradicts_what_is_stored_changes_nothing(store: Arc<dyn Store>) {
    let holder = Subject::new();
    let (asked, grant, token) = (holder.elicitation(0, 90), holder.grant(), token(0));
    store.commit(holder.ask(vec![asked.clone()])).await.unwrap();
    store.commit(grants(vec![GrantWrite::Give(grant.clone())])).await.unwrap();
    store.commit(create(&token)).await.unwrap();

    for what in
        ["an elicitation", "a grant", "a token", "a hash", "nothing to decide", "somebody else's to decide"]
    {
        let everything = Everything::new(&holder);
        let mut write = everything.write();
        let journal = write.journal.as_mut().unwrap();
        match what {
            "an elicitation" => {
                journal
                    .opened
                    .iter_mut()
                    .for_each(|row| Arc::make_mut(&mut row.elicitation).id = asked.elicitation.id);
            }
            "a grant" => write.grants.push(GrantWrite::Give(grant.clone())),
            "a token" => {
                write.tokens.push(TokenWrite::Create(TokenRow { id: token.id, ..super::subject::token(1) }));
            }
            "a hash" => {
                write
                    .tokens
                    .push(TokenWrite::Create(TokenRow { hash: token.hash, ..super::subject::token(1) }));
            }
            "nothing to decide" => {
                journal.decided.push(holder.elicitation(0, 1).elicitation.id);
            }
            _ => journal.decided.push(asked.elicitation.id),
        }
        let neighbour = Subject::new();
        let (refused, fine) = tokio::join!(store.commit(write), store.commit(neighbour.start()));
        assert!(refused.is_err(), "{what}");
        fine.unwrap();
        everything.is_absent(&*store, what).await;
        assert_eq!(store.journal(neighbour.id).await.unwrap().len(), 1);
        assert_eq!(store.elicitation(asked.elicitation.id).await.unwrap(), Some(asked.clone()));
    }
}

/// One of each thing that a change can bring.
struct Everything {
    subject: Subject,
    asked: ElicitationRow,
    grant: countersign_core::grant::Grant,
    session: SessionRow,
    token: TokenRow,
}

impl Everything {
    fn new(holder: &Subject) -> Self {
        let subject = holder.sibling();
        let opened = super::subject::fresh_session();
        Self {
            asked: subject.elicitation(0, 90),
            grant: subject.grant(),
            session: SessionRow {
                id: opened,
                principal: subject.requester.clone(),
                client: "test".into(),
                opened_at: at(0),
            },
            token: token(0),
            subject,
        }
    }

    fn write(&self) -> Write {
        Write {
            grants: vec![GrantWrite::Give(self.grant.clone())],
            session: Some(self.session.clone()),
            tokens: vec![TokenWrite::Create(self.token.clone())],
            ..self.subject.ask(vec![self.asked.clone()])
        }
    }

    async fn is_absent(&self, store: &dyn Store, what: &str) {
        let (id, session) = (self.subject.id, &self.subject.session);
        assert_eq!(store.journal(id).await.unwrap(), [], "{what}");
        assert_eq!(store.execution(id).await.unwrap(), None, "{what}");
        assert_eq!(store.elicitation(self.asked.elicitation.id).await.unwrap(), None, "{what}");
        assert!(!store.grants(session).await.unwrap().contains(&self.grant), "{what}");
        assert_eq!(store.session(&self.session.id).await.unwrap(), None, "{what}");
        assert_eq!(store.token_by_hash(self.token.hash).await.unwrap(), None, "{what}");
        let audit = store.audit(0, usize::MAX).await.unwrap();
        let name = id.to_string();
        assert!(!audit.iter().any(|record| record.entry.contains(&name)), "{what}");
        countersign_core::audit::verify((0, countersign_core::digest::Digest::ZERO), &audit).unwrap();
    }

    async fn is_present(&self, store: &dyn Store) {
        assert_eq!(store.journal(self.subject.id).await.unwrap().len(), 2);
        assert_eq!(store.execution(self.subject.id).await.unwrap(), Some(self.subject.row(Status::Waiting)));
        assert_eq!(store.elicitation(self.asked.elicitation.id).await.unwrap(), Some(self.asked.clone()));
        assert!(store.grants(&self.subject.session).await.unwrap().contains(&self.grant));
        assert_eq!(store.session(&self.session.id).await.unwrap(), Some(self.session.clone()));
        assert_eq!(store.token_by_hash(self.token.hash).await.unwrap(), Some(self.token.clone()));
        store.commit(self.subject.append(2, Status::Running, vec![step(1)])).await.unwrap();
    }
}
