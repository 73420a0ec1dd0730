//! A source's tools in parts: a source may have ten thousand of them, each with its schemas.
//!
//! Promise: an answer has at most 4 MiB of tools, and at least one, so that whoever follows the parts gets to the end.

use countersign_kernel::ports::{self, ByteBudget};

use crate::refusal::Refusal;
use crate::size::json_bytes;
use crate::wire::{SourceDetail, SourceTool};

/// The longest description in an answer that could not have all of them.
const BRIEF_CHARS: usize = 200;

/// The first part.
pub(super) fn first(detail: ports::SourceDetail) -> SourceDetail {
    let mut detail = SourceDetail::from(detail);
    let mut budget = ByteBudget::of_a_part();
    detail.unmapped.retain(|operation| budget.takes(json_bytes(operation)));
    from(detail, 0)
}

/// The part behind the tool that was read last. What cannot be a tool was in the first part.
pub(super) fn behind(detail: ports::SourceDetail, last_path: &str) -> Result<SourceDetail, Refusal> {
    let mut detail = SourceDetail::from(detail);
    let read = detail.tools.iter().position(|tool| tool.path == last_path);
    let read = read.ok_or_else(|| {
        Refusal::bad_request("bad_cursor", "the source has no such tool by now; read it from the beginning")
    })?;
    detail.unmapped.clear();
    detail.warnings.clear();
    Ok(from(detail, read + 1))
}

/// Everything in one answer, because nothing is kept that could be asked for again: what does not fit is there without schemas.
pub(super) fn in_brief(detail: ports::SourceDetail) -> SourceDetail {
    let mut detail = SourceDetail::from(detail);
    let mut budget = ByteBudget::of_a_part();
    detail.unmapped.retain(|operation| budget.takes(json_bytes(operation)));
    let mut budget = ByteBudget::of_a_part();
    for tool in &mut detail.tools {
        if !budget.takes(json_bytes(tool)) {
            shorten(tool);
        }
    }
    detail
}

fn from(mut detail: SourceDetail, start: usize) -> SourceDetail {
    let mut budget = ByteBudget::of_a_part();
    let fitting = detail.tools[start..].iter().take_while(|tool| budget.takes(json_bytes(tool))).count();
    let end = start + fitting;
    detail.next_cursor = (end < detail.tools.len()).then(|| detail.tools[end - 1].path.clone());
    detail.tools.truncate(end);
    detail.tools.drain(..start);
    detail
}

fn shorten(tool: &mut SourceTool) {
    (tool.definition, tool.changes) = (None, Vec::new());
    if let Some((end, _)) = tool.description.char_indices().nth(BRIEF_CHARS) {
        tool.description.truncate(end);
        tool.description.push('…');
    }
}

#[cfg(test)]
mod tests {
    use countersign_kernel::ports::MAX_LISTING_BYTES;
    use countersign_testkit::sources::MemorySources;

    use super::*;

    /// A source with so many tools, each with a description of a megabyte.
    fn large(tools: usize) -> ports::SourceDetail {
        let mut detail = MemorySources::offered_by("large");
        let one = detail.tools[0].clone();
        detail.tools = (0..tools)
            .map(|number| ports::SourceTool {
                path: format!("large.t{number}"),
                description: "x".repeat(1 << 20),
                ..one.clone()
            })
            .collect();
        detail
    }

    #[test]
    fn the_parts_of_a_large_source_are_bounded_and_together_they_are_all_of_it() {
        let mut part = first(large(10));
        assert_eq!(part.unmapped.len(), 1);
        let mut read: Vec<String> = Vec::new();
        loop {
            assert!(json_bytes(&part.tools) <= MAX_LISTING_BYTES && !part.tools.is_empty());
            read.extend(part.tools.iter().map(|tool| tool.path.clone()));
            let Some(cursor) = part.next_cursor else { break };
            part = behind(large(10), &cursor).unwrap();
            assert!(part.unmapped.is_empty());
        }
        let all: Vec<String> = (0..10).map(|number| format!("large.t{number}")).collect();
        assert_eq!(read, all);
        assert!(behind(large(1), "large.other").is_err());
        assert_eq!(behind(large(1), "large.t0").unwrap().tools, []);
    }

    #[test]
    fn a_tool_that_is_larger_than_a_part_is_a_part() {
        let mut detail = large(2);
        detail.tools[0].description = "x".repeat(MAX_LISTING_BYTES);
        let part = first(detail);
        assert_eq!((part.tools.len(), part.next_cursor.as_deref()), (1, Some("large.t0")));
    }

    #[test]
    fn a_preview_names_every_tool_and_leaves_out_the_schemas_that_do_not_fit() {
        let shown = in_brief(large(10));
        assert_eq!((shown.tools.len(), shown.next_cursor), (10, None));
        assert!(shown.tools[0].definition.is_some() && shown.tools[9].definition.is_none());
        assert!(json_bytes(&shown.tools) < MAX_LISTING_BYTES + 10 * 1024);
    }
}
