//! The routes of `source`.

use countersign_server::wire::{AcceptRequest, List, Source, SourceConfig, SourceDetail};
use reqwest::Method;

use super::Client;
use crate::exit::Problem;

impl Client {
    /// All sources.
    pub(crate) async fn sources(&self) -> Result<List<Source>, Problem> {
        self.json(self.request(Method::GET, &["api", "sources"], &[])?).await
    }

    /// One source with its tools.
    pub(crate) async fn source(&self, name: &str) -> Result<SourceDetail, Problem> {
        self.json(self.request(Method::GET, &["api", "sources", name], &[])?).await
    }

    /// What a source would bring. Nothing is kept.
    pub(crate) async fn preview_source(&self, config: &SourceConfig) -> Result<SourceDetail, Problem> {
        let query = [("preview", "true".to_owned())];
        self.json(self.request(Method::POST, &["api", "sources"], &query)?.json(config)).await
    }

    /// Adds a source. Its tools wait to be accepted.
    pub(crate) async fn add_source(&self, config: &SourceConfig) -> Result<SourceDetail, Problem> {
        self.json(self.request(Method::POST, &["api", "sources"], &[])?.json(config)).await
    }

    /// Reads anew what a source offers.
    pub(crate) async fn refresh_source(&self, name: &str) -> Result<SourceDetail, Problem> {
        self.json(self.request(Method::POST, &["api", "sources", name, "refresh"], &[])?).await
    }

    /// Accepts tools as they were shown.
    pub(crate) async fn accept_source(
        &self,
        name: &str,
        request: &AcceptRequest,
    ) -> Result<SourceDetail, Problem> {
        self.json(self.request(Method::POST, &["api", "sources", name, "accept"], &[])?.json(request)).await
    }

    /// Removes a source and its tools.
    pub(crate) async fn remove_source(&self, name: &str) -> Result<(), Problem> {
        self.done(self.request(Method::DELETE, &["api", "sources", name], &[])?).await
    }
}
