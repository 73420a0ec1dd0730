//! Earlier denials of the same tool with the same arguments, in whatever session or client of the same user: whoever is asked
//! again should know what was said before (A15).

use countersign_server::wire::Elicitation;

use crate::client::{Client, Part};
use crate::names::Names;
use crate::{report, shown};

/// How many are told of; the rest are counted.
const MOST_TOLD: usize = 3;

/// What was said before about the very same call, newest first; a line each. What cannot be found out is left out: the
/// question itself is whole without it.
pub(crate) async fn of(client: &Client, names: &Names, asked: &Elicitation) -> Vec<String> {
    let (mut found, mut part) = (Vec::new(), Some(Part::default()));
    while let Some(wanted) = part {
        let Ok(list) = client.elicitations_like(&asked.question.elicitation_id, &wanted).await else {
            return Vec::new();
        };
        part = Part::after(&list);
        found.extend(list.items.into_iter().filter_map(|earlier| earlier.decision));
    }
    found.retain(|decision| decision.outcome == "denied");
    let more = found.len().saturating_sub(MOST_TOLD);
    let told = found.iter().rev().take(MOST_TOLD);
    let mut lines: Vec<String> = told
        .map(|denial| format!("{}, at {}", report::told_decision(denial, names), shown::line(&denial.at)))
        .collect();
    if more > 0 {
        lines.push(format!("and {more} times more"));
    }
    lines
}
