//! Lists of a server, page by page, within bounds.

use serde_json::{Value, json};

use crate::mcp::call::CallFailure;
use crate::mcp::config::McpLimits;
use crate::mcp::connection::Connection;

/// What a server listed, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) items: Vec<Value>,
    pub(super) warnings: Vec<String>,
}

/// Reads a whole list. `key` is the name of the list in each page.
pub(super) async fn list(
    connection: &Connection,
    method: &'static str,
    key: &'static str,
    limits: &McpLimits,
) -> Result<Listed, CallFailure> {
    let mut pages = Pages::new(key, limits);
    loop {
        let page = connection.request(method, pages.params(), limits.request).await?;
        if pages.add(page)? == More::No {
            return Ok(pages.listed);
        }
    }
}

/// The pages so far. Pure.
struct Pages {
    key: &'static str,
    limits: McpLimits,
    cursor: Option<String>,
    pages: usize,
    bytes: usize,
    listed: Listed,
}

#[derive(Debug, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

impl Pages {
    fn new(key: &'static str, limits: &McpLimits) -> Self {
        Self { key, limits: *limits, cursor: None, pages: 0, bytes: 0, listed: Listed::default() }
    }

    fn params(&self) -> Value {
        self.cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }))
    }

    fn add(&mut self, mut page: Value) -> Result<More, CallFailure> {
        self.pages += 1;
        self.bytes += serde_json::to_string(&page).map_or(0, |text| text.len());
        let Some(Value::Array(items)) = page.get_mut(self.key).map(Value::take) else {
            let message = format!("its list has no {:?}", self.key);
            return Err(CallFailure::Refused { code: 0, message, data: None });
        };
        let room = self.limits.list_entries.saturating_sub(self.listed.items.len());
        let over = items.len() > room;
        self.listed.items.extend(items.into_iter().take(room));
        let next = page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
        let Some(next) = next else {
            return Ok(if over {
                self.stop(&format!("more than {} entries", self.limits.list_entries))
            } else {
                More::No
            });
        };
        let stop = if over || self.listed.items.len() >= self.limits.list_entries {
            format!("more than {} entries", self.limits.list_entries)
        } else if self.pages >= self.limits.pages {
            format!("more than {} pages", self.limits.pages)
        } else if self.bytes > self.limits.list_bytes {
            format!("more than {} bytes", self.limits.list_bytes)
        } else if self.cursor.as_deref() == Some(next) {
            "a page that leads to itself".to_owned()
        } else {
            self.cursor = Some(next.to_owned());
            return Ok(More::Yes);
        };
        Ok(self.stop(&stop))
    }

    fn stop(&mut self, reason: &str) -> More {
        self.listed.warnings.push(format!("the server lists {reason}; the rest is left out"));
        More::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(limits: McpLimits) -> Pages {
        Pages::new("tools", &limits)
    }

    #[test]
    fn a_list_ends_at_its_last_page() {
        let mut pages = pages(McpLimits::default());
        assert_eq!(pages.params(), json!({}));
        assert_eq!(pages.add(json!({ "tools": [1, 2], "nextCursor": "a" })), Ok(More::Yes));
        assert_eq!(pages.params(), json!({ "cursor": "a" }));
        assert_eq!(pages.add(json!({ "tools": [3], "nextCursor": null })), Ok(More::No));
        assert_eq!((pages.listed.items.len(), pages.listed.warnings.len()), (3, 0));
    }

    #[test]
    fn each_bound_cuts_the_list_and_says_so() {
        let entries = |count: usize| vec![json!(1); count];
        let defaults = McpLimits::default();
        let mut at_bound = pages(defaults);
        assert_eq!(at_bound.add(json!({ "tools": entries(defaults.list_entries) })), Ok(More::No));
        assert_eq!((at_bound.listed.items.len(), at_bound.listed.warnings.len()), (defaults.list_entries, 0));
        let mut past_it = pages(defaults);
        assert_eq!(past_it.add(json!({ "tools": entries(defaults.list_entries + 1) })), Ok(More::No));
        assert_eq!((past_it.listed.items.len(), past_it.listed.warnings.len()), (defaults.list_entries, 1));

        let mut endless = pages(defaults);
        for page in 1..defaults.pages {
            assert_eq!(endless.add(json!({ "tools": [1], "nextCursor": page.to_string() })), Ok(More::Yes));
        }
        assert_eq!(endless.add(json!({ "tools": [1], "nextCursor": "more" })), Ok(More::No));
        assert_eq!(endless.listed.warnings.len(), 1);

        let mut large = pages(McpLimits { list_bytes: 100, ..defaults });
        assert_eq!(large.add(json!({ "tools": ["x".repeat(100)], "nextCursor": "a" })), Ok(More::No));
        let mut circle = pages(defaults);
        assert_eq!(circle.add(json!({ "tools": [1], "nextCursor": "a" })), Ok(More::Yes));
        assert_eq!(circle.add(json!({ "tools": [1], "nextCursor": "a" })), Ok(More::No));
    }

    #[test]
    fn a_page_without_its_list_is_an_error() {
        assert!(pages(McpLimits::default()).add(json!({ "tools": "none" })).is_err());
    }
}
