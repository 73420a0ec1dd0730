//! Text from outside, for a person's eyes (R13): literal, and with everything that hides or misleads written out.

use countersign_core::visible::{Visible, Warning, listed, visible, visible_json, visible_number};
use maud::{Markup, html};
use serde_json::{Number, Value};

/// A text, with what was written out marked.
pub(super) fn text(raw: &str) -> Markup {
    marked(&visible(raw))
}

/// A JSON value over several lines, with what was written out marked.
pub(super) fn json(value: &Value) -> Markup {
    marked(&visible_json(value))
}

/// An id, cut to what one can compare at a glance; whole on asking.
pub(super) fn short(id: &str) -> Markup {
    const ENOUGH: usize = 8;
    let random = id.rfind('_').map_or(0, |at| at + 1);
    match id.get(random..random + ENOUGH) {
        Some(_) if id.len() > random + 2 * ENOUGH => {
            html! { span.id title=(id) { (id.get(..random + ENOUGH).unwrap_or(id)) "…" } }
        }
        _ => text(id),
    }
}

/// Who wants something: what people call them, and who they are.
pub(super) fn person(name: Option<&str>, id: &str) -> Markup {
    html! { @if let Some(name) = name { (text(name)) " " } span.faint { (short(id)) } }
}

/// What a person should know about texts before they believe them.
pub(super) fn warning(of: &[Warning]) -> Markup {
    html! {
        @if let Some(found) = listed(of) {
            p.warning role="note" {
                strong { "Look closely. " }
                "This text contains " (found) ". Each place is marked " mark.odd { "⟦…⟧" } "."
            }
        }
    }
}

/// Collects what is odd about several texts.
#[derive(Default)]
pub(super) struct Oddities(Vec<Warning>);

impl Oddities {
    /// A text, noted.
    pub(super) fn text(&mut self, raw: &str) -> Markup {
        self.note(&visible(raw))
    }

    /// A number, noted.
    pub(super) fn number(&mut self, raw: &Number) -> Markup {
        self.note(&visible_number(raw))
    }

    fn note(&mut self, seen: &Visible) -> Markup {
        for warning in &seen.warnings {
            if !self.0.contains(warning) {
                self.0.push(*warning);
            }
        }
        marked(seen)
    }

    /// What was noted.
    pub(super) fn warnings(&self) -> &[Warning] {
        &self.0
    }
}

/// The brackets are unmistakable: one that came from outside is written out itself.
fn marked(seen: &Visible) -> Markup {
    let mut parts = seen.text.split('⟦');
    let first = parts.next().unwrap_or_default();
    html! {
        (first)
        @for part in parts {
            @match part.split_once('⟧') {
                Some((size, rest)) if size.starts_with("= ") => { span.size { "⟦" (size) "⟧" } (rest) }
                Some((odd, rest)) => { mark.odd { "⟦" (odd) "⟧" } (rest) }
                None => { "⟦" (part) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text_and_what_hides_is_marked() {
        assert_eq!(text("<b>&\"x").into_string(), "&lt;b&gt;&amp;&quot;x");
        assert_eq!(text("a\u{202e}b").into_string(), "a<mark class=\"odd\">⟦U+202E⟧</mark>b");
        assert_eq!(
            text("⟦U+202E⟧").into_string(),
            "<mark class=\"odd\">⟦U+27E6⟧</mark>U+202E⟧",
            "a forged mark is none"
        );
        assert_eq!(text("pаy").into_string(), "p<mark class=\"odd\">⟦U+0430 Cyrillic⟧</mark>y");
        assert_eq!(text("10000000").into_string(), "10000000<span class=\"size\">⟦= 10 000 000⟧</span>");
    }

    #[test]
    fn a_long_id_is_cut_where_it_is_random_and_whole_on_asking() {
        let id = "ses_of_tok_0cdff4eba55f5f0207168466dd6b24f2";
        let cut = short(id).into_string();
        assert!(cut.contains(">ses_of_tok_0cdff4eb…<") && cut.contains(&format!("title=\"{id}\"")), "{cut}");
        assert_eq!(short("ses_mine").into_string(), "ses_mine");
    }

    #[test]
    fn each_oddity_is_told_once() {
        let mut oddities = Oddities::default();
        for raw in ["\u{200b}", "plain", "\u{200b}\u{1b}[31m"] {
            oddities.text(raw);
        }
        let told = warning(oddities.warnings()).into_string();
        assert!(
            told.contains("control characters (they can steer a terminal) and invisible characters"),
            "{told}"
        );
        assert_eq!(warning(&[]).into_string(), "");
    }
}
