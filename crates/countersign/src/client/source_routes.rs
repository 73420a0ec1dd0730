//! The routes of `source`.

use countersign_server::wire::{AcceptRequest, List, Source, SourceConfig, SourceDetail};
use reqwest::{Method, RequestBuilder};

use super::Client;
use crate::exit::Problem;

impl Client {
    /// All sources.
    pub(crate) async fn sources(&self) -> Result<List<Source>, Problem> {
        self.json(self.request(Method::GET, &["api", "sources"], &[])?).await
    }

    /// One source with all its tools.
    pub(crate) async fn source(&self, name: &str) -> Result<SourceDetail, Problem> {
        self.whole(name, self.request(Method::GET, &["api", "sources", name], &[])?).await
    }

    /// A source of which a request answers the first part, with all its tools.
    async fn whole(&self, name: &str, request: RequestBuilder) -> Result<SourceDetail, Problem> {
        let mut detail: SourceDetail = self.json(request).await?;
        while let Some(cursor) = detail.next_cursor.take() {
            let query = [("cursor", cursor)];
            let part = self.json(self.request(Method::GET, &["api", "sources", name], &query)?).await?;
            detail.extend(part).map_err(|changed| Problem::new("not_what_was_shown", changed.to_string()))?;
        }
        Ok(detail)
    }

    /// What a source would bring. Nothing is kept.
    pub(crate) async fn preview_source(&self, config: &SourceConfig) -> Result<SourceDetail, Problem> {
        let query = [("preview", "true".to_owned())];
        self.json(self.request(Method::POST, &["api", "sources"], &query)?.json(config)).await
    }

    /// Adds a source. Its tools wait to be accepted.
    pub(crate) async fn add_source(&self, config: &SourceConfig) -> Result<SourceDetail, Problem> {
        self.whole(&config.name, self.request(Method::POST, &["api", "sources"], &[])?.json(config)).await
    }

    /// Reads anew what a source offers.
    pub(crate) async fn refresh_source(&self, name: &str) -> Result<SourceDetail, Problem> {
        self.whole(name, self.request(Method::POST, &["api", "sources", name, "refresh"], &[])?).await
    }

    /// Accepts tools as they were shown.
    pub(crate) async fn accept_source(
        &self,
        name: &str,
        request: &AcceptRequest,
    ) -> Result<SourceDetail, Problem> {
        let accept = self.request(Method::POST, &["api", "sources", name, "accept"], &[])?;
        self.whole(name, accept.json(request)).await
    }

    /// Removes a source and its tools.
    pub(crate) async fn remove_source(&self, name: &str) -> Result<(), Problem> {
        self.done(self.request(Method::DELETE, &["api", "sources", name], &[])?).await
    }
}
