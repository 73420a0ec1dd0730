//! Points in time and spans of it, for people. The script keeps ages and countdowns going; what stands here is right when the
//! page is made.

use std::time::Duration;

use countersign_core::time::Timestamp;
use maud::{Markup, html};

/// How long something took, to two figures that matter.
pub(super) fn span(duration: Duration) -> String {
    let ms = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{}.{} s", seconds, (ms % 1_000) / 100),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A moment: the day and the second, the whole of it on asking.
pub(super) fn moment(at: &str) -> Markup {
    let short = match at.split_once('T') {
        Some((day, time)) => format!("{day} {}", time.get(..8).unwrap_or(time)),
        None => at.to_owned(),
    };
    html! { time datetime=(at) title=(at) { (short) } }
}

/// How long ago a moment was; the script keeps it true.
pub(super) fn age(at: &str) -> Markup {
    html! { time.age datetime=(at) title=(at) data-age { (at.get(11..16).unwrap_or(at)) } }
}

/// How long until a moment; the script counts it down.
pub(super) fn left(at: &str) -> Markup {
    html! { time.left datetime=(at) title={ "Expires " (at) } data-left { (at.get(11..16).unwrap_or(at)) } }
}

/// A moment of the journal.
pub(super) fn of(at: Timestamp) -> Markup {
    moment(&at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_in_the_units_people_use() {
        let told: Vec<String> =
            [7, 1_250, 61_000, 3_660_000, 90_000_000].map(Duration::from_millis).map(span).into();
        assert_eq!(told, ["7 ms", "1.2 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]);
    }
}
