//! The tool list of the catalog as it is now, and telling clients when it changed.
//!
//! Promise: a list is made once for each catalog, however often it is asked for.

use std::sync::{Arc, Mutex, PoisonError};

use countersign_kernel::{Catalog, GatewayEventKind};
use tokio::sync::broadcast::error::RecvError;

use super::MountError;
use super::announcer::Announcement;
use super::handler::Front;
use super::options::Options;
use super::shelf::Shelf;

/// The list of the current catalog.
pub(super) struct CurrentShelf {
    current: Mutex<(Arc<Catalog>, Arc<Shelf>)>,
}

impl CurrentShelf {
    pub(super) fn new(catalog: Arc<Catalog>, options: &Options) -> Result<Self, MountError> {
        let shelf = Shelf::new(&catalog, options.surface, options.companion.as_ref(), None)?;
        Ok(Self { current: Mutex::new((catalog, Arc::new(shelf))) })
    }

    /// The list of this catalog.
    pub(super) fn of(&self, catalog: Arc<Catalog>, options: &Options) -> Arc<Shelf> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, shelf) = &mut *current;
        if !Arc::ptr_eq(known, &catalog) {
            match Shelf::new(&catalog, options.surface, options.companion.as_ref(), Some(shelf)) {
                Ok(next) => *shelf = Arc::new(next),
                // Only plugins and companions can clash so, and those were checked when the front was mounted.
                Err(error) => tracing::error!(%error, "the tool list could not be made anew"),
            }
            *known = catalog;
        }
        Arc::clone(shelf)
    }
}

/// Tells connected clients of every change of the catalog, until the server stops.
pub(super) async fn announce_changes(front: Arc<Front>) {
    let mut events = front.gateway.events();
    loop {
        let event = tokio::select! {
            () = front.stop.cancelled() => return,
            event = events.recv() => event,
        };
        match event {
            Ok(event) if !matches!(event.kind, GatewayEventKind::CatalogChanged(_)) => {}
            // Whoever fell behind may have missed a change.
            Ok(_) | Err(RecvError::Lagged(_)) => {
                front.options.announcer.announce(Announcement::Tools).await;
            }
            Err(RecvError::Closed) => return,
        }
    }
}
