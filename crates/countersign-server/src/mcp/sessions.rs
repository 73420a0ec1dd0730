//! The MCP sessions of clients of the 2025 era: whose they are, and how long they live.
//!
//! Promise: a session is its opener's; to anybody else it does not exist. A person's thinking time ends none: a session goes
//! only when nobody has had a stream of it open, or sent it anything, for [`IDLE`]. rmcp's own idle timer looks at messages
//! only, and would end a session in which a question waits for its answer, so it is off. What a session that went had
//! waiting is in the store, and is found with `resume`. Whoever opens more than their share loses their own, and nobody
//! else's.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use countersign_kernel::Caller;
use countersign_sdk::PrincipalId;
use futures_util::Stream;
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::WorkerTransport;
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError, LocalSessionWorker,
};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;

use super::answer::invalid;

/// How long a session stays that nobody listens to or speaks in.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// The most sessions at once; past this, those that are idle the longest go first.
const MAX_SESSIONS: usize = 10_000;
/// The most of one owner; past this, their own that is idle the longest goes.
const MAX_SESSIONS_OF_ONE: usize = 256;

/// All sessions of this process.
pub(super) struct Sessions {
    inner: LocalSessionManager,
    known: Arc<Mutex<HashMap<SessionId, Session>>>,
}

/// What is known of a session beside what rmcp knows.
struct Session {
    owner: Option<PrincipalId>,
    /// How many streams of it are open.
    streams: usize,
    last_seen: Instant,
}

/// What a session is to somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belonging {
    /// Theirs, or unknown here: then rmcp says so.
    OwnOrUnknown,
    /// Somebody else's.
    Foreign,
}

/// Whether a new session may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// It is its opener's.
    Theirs,
    /// Its opener has too many, and uses all of them. It is closed.
    TooMany,
}

/// Why a session could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionsError {
    #[error("too many sessions are open, and all of them are in use")]
    Full,
    #[error("{0}")]
    Inner(#[from] LocalSessionManagerError),
}

impl Sessions {
    pub(super) fn new() -> Arc<Self> {
        let mut inner = LocalSessionManager::default();
        inner.session_config.keep_alive = None;
        let sessions = Arc::new(Self { inner, known: Arc::default() });
        tokio::spawn(sweep(Arc::downgrade(&sessions)));
        sessions
    }

    /// What a session is to a principal.
    pub(super) fn belonging(&self, id: &str, principal: &PrincipalId) -> Belonging {
        match locked(&self.known).get(id) {
            Some(session) if session.owner.as_ref() != Some(principal) => Belonging::Foreign,
            _ => Belonging::OwnOrUnknown,
        }
    }

    fn touch(&self, id: &SessionId) {
        if let Some(session) = locked(&self.known).get_mut(id) {
            session.last_seen = Instant::now();
        }
    }

    fn attended<S>(&self, id: &SessionId, stream: S) -> Attended<S> {
        if let Some(session) = locked(&self.known).get_mut(id) {
            session.streams += 1;
            session.last_seen = Instant::now();
        }
        Attended { stream: Box::pin(stream), id: id.clone(), known: Arc::clone(&self.known) }
    }

    /// The sessions that nobody has listened to or spoken in for so long, the longest idle first.
    fn idle_for(&self, time: Duration) -> Vec<SessionId> {
        let known = locked(&self.known);
        let idle = known.iter().filter(|(_, s)| s.streams == 0 && s.last_seen.elapsed() >= time);
        let mut idle: Vec<(Instant, SessionId)> = idle.map(|(id, s)| (s.last_seen, id.clone())).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }

    /// Says whose a session is. Past the owner's bound, the one of theirs that is idle the longest goes; where they use all
    /// of them, the new one does.
    async fn give(&self, id: &SessionId, owner: Option<PrincipalId>) -> Result<Given, SessionsError> {
        let (gone, given) = {
            let mut known = locked(&self.known);
            if let Some(session) = known.get_mut(id) {
                session.owner.clone_from(&owner);
            }
            let own = known.iter().filter(|(_, session)| session.owner == owner);
            if own.clone().count() <= MAX_SESSIONS_OF_ONE {
                return Ok(Given::Theirs);
            }
            let idle = own.filter(|(other, session)| *other != id && session.streams == 0);
            let longest_idle = idle.min_by_key(|(_, session)| session.last_seen).map(|(id, _)| id.clone());
            let (gone, given) = match longest_idle {
                Some(longest_idle) => (longest_idle, Given::Theirs),
                None => (id.clone(), Given::TooMany),
            };
            // Under the same lock, so that of two that are opened at once each makes room for itself.
            known.remove(&gone);
            (gone, given)
        };
        self.close_session(&gone).await?;
        Ok(given)
    }

    async fn close_idle(&self) {
        for id in self.idle_for(IDLE) {
            tracing::debug!("an MCP session that nobody used was closed");
            // One that ended by itself meanwhile is as closed as it can be.
            let _ = self.close_session(&id).await;
        }
    }
}

fn too_many() -> ErrorData {
    let message = format!(
        "{MAX_SESSIONS_OF_ONE} sessions of this principal are in use, and it may not have more; end one of them"
    );
    invalid("too_many_sessions", &message)
}

async fn sweep(sessions: Weak<Sessions>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.close_idle().await;
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = WorkerTransport<LocalSessionWorker>;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        if locked(&self.known).len() >= MAX_SESSIONS {
            let longest_idle = self.idle_for(Duration::ZERO).into_iter().next();
            self.close_session(&longest_idle.ok_or(SessionsError::Full)?).await?;
        }
        let (id, transport) = self.inner.create_session().await?;
        let session = Session { owner: None, streams: 0, last_seen: Instant::now() };
        locked(&self.known).insert(id.clone(), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let (owner, request) = match &message {
            ClientJsonRpcMessage::Request(request) => {
                (super::door::caller(request.request.extensions()), Some(request.id.clone()))
            }
            _ => (None, None),
        };
        let owner = owner.map(|caller: &Caller| caller.principal.id.clone());
        if self.give(id, owner).await? == Given::TooMany {
            return Ok(ServerJsonRpcMessage::error(too_many(), request));
        }
        Ok(self.inner.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.inner.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        locked(&self.known).remove(id);
        Ok(self.inner.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_stream(id, message).await?;
        Ok(self.attended(id, stream))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.touch(id);
        Ok(self.inner.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.attended(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(self.attended(id, stream))
    }
}

/// A stream that somebody listens to; its session is not idle.
struct Attended<S> {
    stream: Pin<Box<S>>,
    id: SessionId,
    known: Arc<Mutex<HashMap<SessionId, Session>>>,
}

impl<S: Stream> Stream for Attended<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(cx)
    }
}

impl<S> Drop for Attended<S> {
    fn drop(&mut self) {
        if let Some(session) = locked(&self.known).get_mut(&self.id) {
            session.streams = session.streams.saturating_sub(1);
            session.last_seen = Instant::now();
        }
    }
}

fn locked(known: &Mutex<HashMap<SessionId, Session>>) -> MutexGuard<'_, HashMap<SessionId, Session>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn opened(sessions: &Sessions) -> SessionId {
        sessions.create_session().await.unwrap().0
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_listened_to_stays_and_one_that_nobody_uses_goes() {
        let sessions = Sessions::new();
        assert_eq!(sessions.inner.session_config.keep_alive, None, "rmcp's own timer looks at messages only");
        let (listened, left, spoken) =
            (opened(&sessions).await, opened(&sessions).await, opened(&sessions).await);
        let stream = sessions.attended(&listened, stream::pending::<()>());
        tokio::time::sleep(IDLE - SWEEP).await;
        sessions.touch(&spoken);
        tokio::time::sleep(SWEEP * 3).await;
        assert!(
            sessions.has_session(&listened).await.unwrap(),
            "a person may think for as long as they like"
        );
        assert!(sessions.has_session(&spoken).await.unwrap());
        assert!(!sessions.has_session(&left).await.unwrap());
        drop(stream);
        tokio::time::sleep(IDLE + SWEEP * 2).await;
        assert!(!sessions.has_session(&listened).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_bound_the_longest_idle_makes_room_and_one_in_use_never_does() {
        let sessions = Sessions::new();
        let (used, idle) = (opened(&sessions).await, opened(&sessions).await);
        let _stream = sessions.attended(&used, stream::pending::<()>());
        tokio::time::sleep(Duration::from_secs(1)).await;
        for _ in 2..MAX_SESSIONS {
            let session = Session { owner: None, streams: 1, last_seen: Instant::now() };
            let id: SessionId = format!("full-{}", locked(&sessions.known).len()).into();
            locked(&sessions.known).insert(id, session);
        }
        opened(&sessions).await;
        assert!(sessions.has_session(&used).await.unwrap() && !sessions.has_session(&idle).await.unwrap());
        for session in locked(&sessions.known).values_mut() {
            session.streams = 1;
        }
        assert!(matches!(sessions.create_session().await, Err(SessionsError::Full)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_opens_more_than_their_share_loses_their_own_longest_idle_and_nobody_elses() {
        let sessions = Sessions::new();
        let (ann, bob) = (PrincipalId::parse("ann").unwrap(), PrincipalId::parse("bob").unwrap());
        let opened_by = async |who: &PrincipalId| {
            let id = opened(&sessions).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            (sessions.give(&id, Some(who.clone())).await.unwrap(), id)
        };
        let (_, bobs) = opened_by(&bob).await;
        let (_, used) = opened_by(&ann).await;
        let _stream = sessions.attended(&used, stream::pending::<()>());
        let (_, idle) = opened_by(&ann).await;
        for _ in 2..MAX_SESSIONS_OF_ONE {
            assert_eq!(opened_by(&ann).await.0, Given::Theirs);
        }
        assert!(sessions.has_session(&idle).await.unwrap(), "as many as she may have");
        let (given, newest) = opened_by(&ann).await;
        assert_eq!(given, Given::Theirs);
        for (id, is_there) in [(&bobs, true), (&used, true), (&idle, false), (&newest, true)] {
            assert_eq!(sessions.has_session(id).await.unwrap(), is_there);
        }
        let hers: Vec<SessionId> = locked(&sessions.known).keys().cloned().collect();
        let _streams: Vec<_> = hers.iter().map(|id| sessions.attended(id, stream::pending::<()>())).collect();
        let (given, refused) = opened_by(&ann).await;
        assert_eq!(given, Given::TooMany);
        assert!(!sessions.has_session(&refused).await.unwrap());
        assert_eq!(locked(&sessions.known).len(), MAX_SESSIONS_OF_ONE + 1);
        assert_eq!(opened_by(&bob).await.0, Given::Theirs, "it is hers alone");
    }

    #[test]
    fn a_session_is_foreign_to_all_but_its_owner() {
        let (ann, bob) = (PrincipalId::parse("ann").unwrap(), PrincipalId::parse("bob").unwrap());
        let sessions = Sessions { inner: LocalSessionManager::default(), known: Arc::default() };
        let session = |owner| Session { owner, streams: 0, last_seen: Instant::now() };
        locked(&sessions.known).insert("s".into(), session(Some(ann.clone())));
        locked(&sessions.known).insert("nobodys".into(), session(None));
        assert_eq!(sessions.belonging("s", &ann), Belonging::OwnOrUnknown);
        assert_eq!(sessions.belonging("s", &bob), Belonging::Foreign);
        assert_eq!(
            sessions.belonging("nobodys", &ann),
            Belonging::Foreign,
            "one without an owner is nobody's"
        );
        assert_eq!(sessions.belonging("other", &bob), Belonging::OwnOrUnknown);
    }
}
