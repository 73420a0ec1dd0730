//! Where the server is: at an address that was given, or on this machine, found by its data folder and started where it
//! does not run.

use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Failure;
use super::http::Place;
use super::local_server::LocalServer;

/// The server's whereabouts, looked up once and again when it was lost.
pub(crate) struct Upstream {
    source: Source,
    known: Mutex<Option<Arc<Place>>>,
    /// One looks while the others wait for what it finds.
    looking: tokio::sync::Mutex<()>,
}

enum Source {
    Remote(Arc<Place>),
    Local(Arc<LocalServer>),
}

impl Upstream {
    /// A server that somebody else runs.
    pub(crate) fn remote(place: Place) -> Self {
        Self::new(Source::Remote(Arc::new(place)))
    }

    /// The one server of a data folder on this machine.
    pub(crate) fn local(server: LocalServer) -> Self {
        Self::new(Source::Local(Arc::new(server)))
    }

    fn new(source: Source) -> Self {
        Self { source, known: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    /// Whether it is on this machine.
    pub(super) fn is_local(&self) -> bool {
        match &self.source {
            Source::Remote(place) => place.is_loopback(),
            Source::Local(_) => true,
        }
    }

    /// Where it is. On this machine, it runs when this returns.
    pub(super) async fn place(&self) -> Result<Arc<Place>, Failure> {
        let server = match &self.source {
            Source::Remote(place) => return Ok(Arc::clone(place)),
            Source::Local(server) => Arc::clone(server),
        };
        let _one = self.looking.lock().await;
        if let Some(place) = self.known().filter(|place| server.is_still_at(place)) {
            return Ok(place);
        }
        // In a task of its own: a server that is being started is seen through, even where whoever wanted it gave up.
        let looked = tokio::spawn(async move { server.running().await }).await;
        let found = looked.map_err(anyhow::Error::new).flatten();
        let place = Arc::new(found.map_err(|error| Failure::Unreachable(format!("{error:#}")))?);
        *self.slot() = Some(Arc::clone(&place));
        Ok(place)
    }

    /// Where it was when it was last looked for.
    pub(super) fn known(&self) -> Option<Arc<Place>> {
        match &self.source {
            Source::Remote(place) => Some(Arc::clone(place)),
            Source::Local(_) => self.slot().clone(),
        }
    }

    /// Whether it is somewhere else by now: another server may listen where it was, and that one takes no token of ours.
    pub(super) async fn moved_from(&self, place: &Arc<Place>) -> bool {
        self.lost(place);
        self.place().await.is_ok_and(|found| found != *place)
    }

    /// It is not there any more: the next one looks anew.
    pub(super) fn lost(&self, place: &Arc<Place>) {
        let mut known = self.slot();
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, place)) {
            *known = None;
        }
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Place>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
