//! The tool list of the catalog as it is now, and telling clients when it or a list of a source changed.
//!
//! Promise: a list is made once for each catalog, however often it is asked for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_core::digest::Fingerprint;
use countersign_kernel::{Catalog, GatewayEventKind, SourceList};
use countersign_sdk::McpRequest;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::MountError;
use super::announcer::Announcement;
use super::handler::Front;
use super::options::Options;
use super::shelf::Shelf;
use super::source_lists::tools_for;

/// The pause after clients were told of changes.
const BETWEEN_ANNOUNCEMENTS: Duration = Duration::from_millis(50);

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

/// What there is to tell.
#[derive(Default)]
struct News {
    tools: bool,
    resources: bool,
    prompts: bool,
}

impl News {
    fn all() -> Self {
        Self { tools: true, resources: true, prompts: true }
    }

    /// Takes in what happened. Which lists a change of the catalog concerns is seen by what stands for them.
    fn hear(&mut self, kind: &GatewayEventKind, before: &mut SourceLists, now: &Catalog) {
        match kind {
            GatewayEventKind::CatalogChanged(_) => {
                let now = SourceLists::of(now);
                self.tools = true;
                self.resources |= now.resources != before.resources;
                self.prompts |= now.prompts != before.prompts;
                *before = now;
            }
            GatewayEventKind::SourceListChanged { list: SourceList::Resources, .. } => self.resources = true,
            GatewayEventKind::SourceListChanged { list: SourceList::Prompts, .. } => self.prompts = true,
            _ => {}
        }
    }

    async fn tell(self, front: &Front) {
        let told = [
            (self.tools, Announcement::Tools),
            (self.resources, Announcement::Resources),
            (self.prompts, Announcement::Prompts),
        ];
        for (_, announcement) in told.into_iter().filter(|(is_news, _)| *is_news) {
            front.options.announcer.announce(announcement).await;
        }
    }
}

/// The tools that stand for resources and prompts of sources.
#[derive(Default)]
struct SourceLists {
    resources: Vec<Fingerprint>,
    prompts: Vec<Fingerprint>,
}

impl SourceLists {
    fn of(catalog: &Catalog) -> Self {
        let of = |requests: [McpRequest; 2]| {
            let tools = requests.into_iter().flat_map(|request| tools_for(catalog, request));
            tools.map(|tool| tool.fingerprint()).collect()
        };
        Self {
            resources: of([McpRequest::ListResources, McpRequest::ListResourceTemplates]),
            prompts: of([McpRequest::ListPrompts, McpRequest::GetPrompt]),
        }
    }
}

/// Tells connected clients of every change of the catalog and of the lists of sources, until the server stops. What happens
/// while they are told is told together: a source that speaks without end costs no more than one that speaks now and then.
pub(super) async fn announce_changes(front: Arc<Front>) {
    let mut events = front.gateway.events();
    let mut lists = SourceLists::of(&front.gateway.catalog());
    loop {
        let event = tokio::select! {
            () = front.stop.cancelled() => return,
            event = events.recv() => event,
        };
        let mut news = News::default();
        let mut next = match event {
            Ok(event) => Ok(event),
            Err(RecvError::Lagged(missed)) => Err(TryRecvError::Lagged(missed)),
            Err(RecvError::Closed) => return,
        };
        loop {
            match next {
                Ok(event) => news.hear(&event.kind, &mut lists, &front.gateway.catalog()),
                // Whoever fell behind may have missed a change.
                Err(TryRecvError::Lagged(_)) => news = News::all(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
            next = events.try_recv();
        }
        let is_quiet = !(news.tools || news.resources || news.prompts);
        news.tell(&front).await;
        if !is_quiet {
            tokio::time::sleep(BETWEEN_ANNOUNCEMENTS).await;
        }
    }
}
