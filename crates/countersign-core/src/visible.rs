//! Text made visible for a person who decides by it (R13).
//!
//! Promise: nothing that comes out steers a terminal, reorders letters or hides; two different texts never come out the
//! same. Everything a person cannot see is written as `⟦U+202E⟧`, long runs of blanks as `⟦40 spaces⟧`, and the bracket
//! itself is escaped too.

/// Text for a person, and what was odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visible {
    /// The text, safe to print anywhere that prints text literally.
    pub text: String,
    /// What the person should be warned of, each once.
    pub warnings: Vec<Warning>,
}

/// Something in a text that is meant to mislead, or could.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warning {
    /// Control characters, terminal escapes among them.
    Control,
    /// Characters that reorder what stands around them.
    Bidirectional,
    /// Characters without a shape.
    Invisible,
    /// Blanks that push text out of sight.
    Padding,
}

/// The longest run of blanks that is shown as it is.
const LONGEST_BLANK_RUN: usize = 16;
/// The longest run of line breaks that is shown as it is.
const LONGEST_BREAK_RUN: usize = 3;

/// Makes a text visible. Line breaks stay, everything else that has no shape is written out.
pub fn visible(text: &str) -> Visible {
    let mut out = Visible { text: String::with_capacity(text.len()), warnings: Vec::new() };
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let bound = match c {
            ' ' => LONGEST_BLANK_RUN,
            '\n' => LONGEST_BREAK_RUN,
            _ => {
                out.push(c);
                continue;
            }
        };
        let mut run = 1;
        while rest.next_if_eq(&c).is_some() {
            run += 1;
        }
        out.push_run(c, run, bound);
    }
    out
}

impl Visible {
    fn push(&mut self, c: char) {
        match class(c) {
            None if c == '⟦' => self.escape(c),
            None => self.text.push(c),
            Some(warning) => {
                self.warn(warning);
                self.escape(c);
            }
        }
    }

    fn push_run(&mut self, c: char, run: usize, bound: usize) {
        if run <= bound {
            self.text.extend(std::iter::repeat_n(c, run));
            return;
        }
        let what = if c == ' ' { "spaces" } else { "line breaks" };
        self.warn(Warning::Padding);
        self.text.push_str(&format!("⟦{run} {what}⟧"));
    }

    fn escape(&mut self, c: char) {
        self.text.push_str(&format!("⟦U+{:04X}⟧", c as u32));
    }

    fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn class(c: char) -> Option<Warning> {
    match c {
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some(Warning::Bidirectional)
        }
        '\u{00ad}'
        | '\u{034f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{f0000}'..='\u{10ffff}' => Some(Warning::Invisible),
        '\u{00a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Some(Warning::Padding)
        }
        '\u{2028}' | '\u{2029}' => Some(Warning::Control),
        c if c.is_control() => Some(Warning::Control),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_text_of_any_script_is_left_alone() {
        for text in
            ["Delete note \"x\"?", "päth/ö", "削除しますか", "حذف", "a\nb", "🙂 ok", "<b>not markup</b>"]
        {
            assert_eq!(visible(text), Visible { text: text.into(), warnings: vec![] });
        }
    }

    #[test]
    fn what_steers_reorders_or_hides_is_written_out_and_flagged() {
        let cases = [
            ("\u{1b}[2J", "⟦U+001B⟧[2J", Warning::Control),
            ("a\rb", "a⟦U+000D⟧b", Warning::Control),
            ("a\tb", "a⟦U+0009⟧b", Warning::Control),
            ("x\u{202e}y", "x⟦U+202E⟧y", Warning::Bidirectional),
            ("x\u{200b}y", "x⟦U+200B⟧y", Warning::Invisible),
            ("\u{e0041}", "⟦U+E0041⟧", Warning::Invisible),
            ("a\u{a0}b", "a⟦U+00A0⟧b", Warning::Padding),
        ];
        for (text, shown, warning) in cases {
            assert_eq!(visible(text), Visible { text: shown.into(), warnings: vec![warning] });
        }
        let padded = visible(&format!("ok{}rm -rf", " ".repeat(400)));
        assert_eq!(padded, Visible { text: "ok⟦400 spaces⟧rm -rf".into(), warnings: vec![Warning::Padding] });
    }

    #[test]
    fn a4_what_attacks_were_made_of_never_comes_out_raw_and_is_always_flagged() {
        for attack in [
            "\u{1b}[2J\u{1b}[1;1Happroved",
            "\u{9b}31m",
            "\u{8}\u{8}\u{8}",
            "safe\r\u{1b}[Krm -rf /",
            "\u{1b}]8;;https://evil.example\u{7}ok\u{1b}]8;;\u{7}",
            "photo_\u{202e}gpj.exe",
            "\u{2066}a\u{2069}\u{200f}",
            "adm\u{200b}in",
            "\u{e0041}\u{e0042}",
            "a\u{feff}b\u{ad}c\u{2060}d",
            "\u{3164}\u{ffa0}\u{2800}",
        ] {
            let shown = visible(attack);
            let raw: Vec<char> = attack.chars().filter(|c| class(*c).is_some()).collect();
            assert!(!raw.is_empty() && !shown.warnings.is_empty(), "{attack:?}");
            for c in raw {
                assert!(!shown.text.contains(c), "{c:?} of {attack:?} came out raw");
                assert!(
                    shown.text.contains(&format!("⟦U+{:04X}⟧", c as u32)),
                    "{c:?} of {attack:?} was dropped"
                );
            }
        }
        for padding in [format!("ok{}rm -rf /", " ".repeat(500)), format!("ok{}rm -rf /", "\n".repeat(50))] {
            let shown = visible(&padding);
            assert!(shown.text.len() < 60 && shown.text.ends_with("⟧rm -rf /"), "{}", shown.text);
            assert_eq!(shown.warnings, [Warning::Padding]);
        }
    }

    #[test]
    fn a5_markup_is_left_as_the_letters_it_is() {
        for markup in [
            "<!channel>",
            "[Approve](https://evil.example)",
            "<img src=x onerror=alert(1)>",
            "*bold* `code`",
            "&lt;b&gt;",
        ] {
            assert_eq!(visible(markup), Visible { text: markup.into(), warnings: vec![] });
        }
    }

    #[test]
    fn a_faked_escape_does_not_look_like_a_real_one() {
        assert_ne!(visible("⟦U+202E⟧").text, visible("\u{202e}").text);
    }

    proptest! {
        #[test]
        fn different_texts_are_shown_differently(a in "\\PC{0,8}|[ \\n\u{202e}⟦U+⟧0-9A-F]{0,24}", b in "[ \\n\u{202e}⟦U+⟧0-9A-F]{0,24}") {
            prop_assert_eq!(a == b, visible(&a).text == visible(&b).text);
        }

        #[test]
        fn nothing_unseen_comes_out(text in any::<String>()) {
            prop_assert!(visible(&text).text.chars().all(|c| class(c).is_none() || c == '\n'));
        }
    }
}
