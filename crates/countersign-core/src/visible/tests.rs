//! Text that hides or misleads is written out, and other text stays as it is.

use super::*;
use icu_properties::CodePointMapData;
use icu_properties::CodePointSetData;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use proptest::prelude::*;
use serde_json::{Number, json};

fn is_part_of_emoji(c: char) -> bool {
    c == '\u{200d}' || c == '\u{fe0f}'
}

fn plain(text: &str) -> Visible {
    Visible { text: text.into(), warnings: vec![] }
}

#[test]
fn ordinary_text_of_any_script_is_left_alone() {
    for text in ["Delete note \"x\"?", "päth/ö", "削除しますか", "حذف", "a\nb", "🙂 ok", "<b>not markup</b>"]
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
        let raw: Vec<char> = attack.chars().filter(|c| warning_about(*c).is_some()).collect();
        assert!(!raw.is_empty() && !shown.warnings.is_empty(), "{attack:?}");
        for c in raw {
            assert!(!shown.text.contains(c), "{c:?} of {attack:?} came out raw");
            assert!(shown.text.contains(&format!("⟦U+{:04X}⟧", c as u32)), "{c:?} of {attack:?} was dropped");
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
        prop_assert!(visible(&text).text.chars().all(|c| warning_about(c).is_none() || is_part_of_emoji(c)));
    }
}

#[test]
fn no_character_of_unicode_without_a_shape_comes_out_raw() {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let hidden = |c: char| {
        use GeneralCategory::{
            Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned,
        };
        let of = [Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned];
        (of.contains(&categories.get(c)) && c != '\n') || ignorable.contains(c)
    };
    let all: Vec<char> = ('\0'..=char::MAX).filter(|c| hidden(*c)).collect();
    assert!(all.len() > 900_000, "the tables were read: {}", all.len());
    for some in all.chunks(1 << 16) {
        let text: String = some.iter().flat_map(|c| ['a', *c]).collect();
        let expected: String = some.iter().map(|c| format!("a⟦U+{:04X}⟧", u32::from(*c))).collect();
        assert!(visible(&text).text == expected, "from U+{:04X} on", u32::from(some[0]));
    }
    // Unassigned and private characters are many and all alike; the others are tried beside every kind of neighbour.
    let many = [GeneralCategory::Unassigned, GeneralCategory::PrivateUse];
    for c in all.into_iter().filter(|c| !many.contains(&categories.get(*c))) {
        for (before, after) in
            [("", ""), ("❤", ""), ("👩", "🚀"), ("я", "я"), ("1", "1"), ("لا", "ل"), ("क", "क")]
        {
            let text = format!("{before}{c}{after}");
            if is_part_of_emoji(c) && emojis::get(&text).is_some() {
                continue;
            }
            let shown = visible(&text);
            assert_eq!(shown.text, format!("{before}⟦U+{:04X}⟧{after}", u32::from(c)));
            assert_eq!(shown.warnings.len(), 1, "{:?}", shown.text);
        }
    }
}

#[test]
fn the_characters_that_came_through_raw_once_are_written_out() {
    for c in [
        '\u{1d173}',
        '\u{1bca0}',
        '\u{13430}',
        '\u{110bd}',
        '\u{16fe4}',
        '\u{fff9}',
        '\u{2028}',
        '\u{e0100}',
        '\u{0600}',
        '\u{1d159}',
        '\u{13441}',
        '\u{fffc}',
        '\u{180e}',
        '\u{0378}',
        '\u{10ffff}',
    ] {
        let shown = visible(&format!("pay{c}ment"));
        assert_eq!(shown.text, format!("pay⟦U+{:04X}⟧ment", u32::from(c)));
        assert_eq!(shown.warnings.len(), 1, "{shown:?}");
    }
}

#[test]
fn every_emoji_that_unicode_lists_is_left_whole_but_for_three_flags() {
    let written_out: Vec<&str> = emojis::iter()
        .flat_map(|emoji| emoji.skin_tones().map_or_else(|| vec![emoji], |tones| tones.collect()))
        .map(|emoji| emoji.as_str())
        .filter(|emoji| visible(emoji) != plain(emoji))
        .collect();
    assert_eq!(written_out.len(), 3, "England, Scotland and Wales are spelt with tags: {written_out:?}");
    for hiding in ["❤\u{fe0f}\u{fe0f}", "a\u{fe0f}", "a\u{200d}b", "😀\u{200d}😀", "👩\u{200d}", "\u{200d}👩"]
    {
        let shown = visible(hiding);
        assert_eq!(shown.warnings, [Warning::Invisible], "{shown:?}");
    }
}

#[test]
fn ordinary_text_of_living_languages_is_left_alone() {
    for text in [
        "Die Überweisung an Käthe Weiß beträgt 1.234,56 €.",
        "Ναι, η πληρωμή έγινε. Ο λογαριασμός και τα ποσά.",
        "Он купил сахар и хор у Оси; а мы с Ухо.",
        "支払いを承認しますか？このAPIを使うＡ社の振込１２３",
        "결제를 승인하시겠습니까 OK버튼",
        "هل توافق على الدفع؟ شُكْرًا مُحَمَّد",
        "شَدَّة",
        "שָׁלוֹם לכולם",
        "क्या आप भुगतान स्वीकार करते हैं? लड़का पढ़ना",
        "ภาษาไทยที่นี่ ไม่มีปัญหา",
        "Bạn có đồng ý thanh toán không? Nguyễn Thị Ánh",
        "kadın şoför ığdır İstanbul",
        "1ª vez, nº 5 — “quoted” – l’été…",
        "naïve café, Ångström, Đặng, Łódź, ñandú",
        "Ողջույն աշխարհ",
        "გამარჯობა",
        "வணக்கம் తెలుగు ಕನ್ನಡ മലയാളം বাংলা ગુજરાતી",
        "ሰላም བོད་སྐད་ ភាសាខ្មែរ",
        "❤️ 👨‍👩‍👧 👩🏽‍🚀 🏳️‍🌈 1️⃣ 🇩🇪",
    ] {
        assert_eq!(visible(text), plain(text));
    }
}

#[test]
fn letters_of_another_alphabet_inside_a_word_are_written_out() {
    for (text, shown) in [
        ("pаypal.com", "p⟦U+0430 Cyrillic⟧ypal.com"),
        ("gооgle", "g⟦U+043E Cyrillic⟧⟦U+043E Cyrillic⟧gle"),
        ("micrοsoft", "micr⟦U+03BF Greek⟧soft"),
        ("gօogle", "g⟦U+0585 Armenian⟧ogle"),
        ("αб", "α⟦U+0431 Cyrillic⟧"),
        ("\u{1d5ba}\u{1d5bd}min", "⟦U+1D5BA⟧⟦U+1D5BD⟧min"),
        ("\u{0261}oogle", "⟦U+0261⟧oogle"),
        ("bank.com\u{2215}evil", "bank.com⟦U+2215⟧evil"),
        ("৪00", "⟦U+09EA Bengali⟧00"),
    ] {
        assert_eq!(visible(text), Visible { text: shown.into(), warnings: vec![Warning::LookAlike] });
    }
}

#[test]
fn a_word_that_could_be_read_as_a_latin_one_says_its_alphabet() {
    for (text, shown) in [
        ("аррӏе", "аррӏе⟦Cyrillic⟧"),
        ("pay to аррӏе now", "pay to аррӏе⟦Cyrillic⟧ now"),
        ("аррӏе.com", "аррӏе⟦Cyrillic⟧.com"),
        ("Pay аррӏе же", "Pay аррӏе⟦Cyrillic⟧ же"),
        ("\"да\": \"аррӏе\"", "\"да\": \"аррӏе⟦Cyrillic⟧\""),
        ("৪০", "৪০⟦Bengali⟧"),
    ] {
        assert_eq!(visible(text), Visible { text: shown.into(), warnings: vec![Warning::LookAlike] });
    }
}

#[test]
fn accents_apart_from_their_letter_and_floods_of_them_are_written_out() {
    for (text, shown) in [
        ("cafe\u{301}", "cafe⟦U+0301⟧"),
        ("o\u{323}\u{302}", "o⟦U+0323⟧⟦U+0302⟧"),
        ("\u{1100}\u{1161}", "ᄀ⟦U+1161⟧"),
        ("5\u{212a}", "5⟦U+212A⟧"),
        ("admi\u{307}n", "admi⟦U+0307⟧n"),
        ("\u{301}x", "⟦U+0301⟧x"),
        ("1\u{336}00", "1⟦U+0336⟧00"),
        ("\"\u{338}", "\"⟦U+0338⟧"),
        ("a\u{5b0}b", "a⟦U+05B0⟧b"),
        ("x\u{300}\u{300}", "x̀⟦U+0300⟧"),
        ("x\u{300}\u{301}\u{302}\u{303}\u{304}", "x̀́̂̃⟦U+0304⟧"),
    ] {
        assert_eq!(
            visible(text),
            Visible { text: shown.into(), warnings: vec![Warning::Combining] },
            "{text:?}"
        );
    }
}

#[test]
fn long_numbers_are_followed_by_their_groups_and_names_with_digits_are_not() {
    for (text, shown) in [
        ("pay 10000000 now", "pay 10000000⟦= 10 000 000⟧ now"),
        ("pay 100000000.", "pay 100000000⟦= 100 000 000⟧."),
        ("-1234567", "-1234567⟦= 1 234 567⟧"),
        ("1234567.25", "1234567⟦= 1 234 567⟧.25"),
    ] {
        assert_eq!(visible(text), plain(shown));
    }
    for text in [
        "999999",
        "exec_12345678",
        "tok12345678",
        "0193-12345678-ab",
        "2026-11-18T10:00:00.123456789Z",
        "0.12345678",
    ] {
        assert_eq!(visible(text), plain(text));
    }
    let long = "9".repeat(37);
    assert_eq!(visible(&long).text, format!("{long}⟦= 37 digits⟧"));
    let longest = "9".repeat(36);
    assert!(visible(&longest).text.ends_with("999 999⟧"));
}

#[test]
fn a_json_number_keeps_its_exact_value_and_tells_what_would_be_rounded() {
    let shown = |text: &str| visible_number(&serde_json::from_str::<Number>(text).unwrap());
    for (exact, expected) in [
        ("999999", "999999"),
        ("10000000", "10000000⟦= 10 000 000⟧"),
        ("1e21", "1e+21⟦= 1 000 000 000 000 000 000 000⟧"),
        ("1e300", "1e+300⟦= 301 digits⟧"),
        ("0.1", "0.1"),
        ("-12345678.5", "-12345678.5⟦= -12 345 678⟧"),
        ("0", "0"),
        ("9007199254740992", "9007199254740992⟦= 9 007 199 254 740 992⟧"),
    ] {
        assert_eq!(shown(exact), plain(expected), "{exact}");
    }
    let rounded = shown("9007199254740993");
    assert_eq!(rounded.text, "9007199254740993⟦= 9 007 199 254 740 993⟧⟦JavaScript: 9007199254740992⟧");
    assert_eq!(rounded.warnings, [Warning::Rounded]);
    assert_eq!(shown("18446744073709551615").warnings, [Warning::Rounded]);
}

#[test]
fn a_json_value_is_shown_whole_with_every_oddity_of_keys_and_values() {
    let value = json!({
        "amount": 100_000_000,
        "list": [true, null, [], {}],
        "lines": "первая\nсахар и соль\tx\\ \"q\"",
        "tо": "x\u{202e}y",
    });
    let shown = visible_json(&value);
    assert_eq!(
        shown.text,
        "{\n  \"amount\": 100000000⟦= 100 000 000⟧,\n  \"lines\": \"первая\\nсахар и соль\\tx\\\\ \\\"q\\\"\",\n  \"list\": [\n    true,\n    null,\n    [],\n    {}\n  ],\n  \"t⟦U+043E Cyrillic⟧\": \"x⟦U+202E⟧y\"\n}"
    );
    assert_eq!(shown.warnings, [Warning::LookAlike, Warning::Bidirectional]);
}

#[test]
fn the_kinds_of_oddities_are_listed_once_and_in_one_order() {
    assert_eq!(listed(&[]), None);
    let all = listed(&[Warning::Rounded, Warning::Control, Warning::Rounded]).unwrap();
    assert_eq!(all, "control characters (they can steer a terminal) and numbers that some programs round");
    assert!(Warning::ALL.iter().all(|kind| listed(&[*kind]).is_some()));
}

proptest! {
    #[test]
    fn texts_of_mixed_alphabets_accents_and_numbers_are_told_apart(
        a in "[aаeе\u{301}é০0\u{200d}\u{fe0f}❤👩 \n⟦⟧=1ж]{0,10}",
        b in "[aаeе\u{301}é০0\u{200d}\u{fe0f}❤👩 \n⟦⟧=1ж]{0,10}",
    ) {
        prop_assert_eq!(a == b, visible(&a).text == visible(&b).text);
    }
}
