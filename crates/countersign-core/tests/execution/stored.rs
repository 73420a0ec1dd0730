//! Stored values with one spelling: what is read back is what was written, or is refused.

use countersign_core::canonical::Canonical;
use countersign_core::digest::Digest;
use countersign_core::event::Event;

use crate::case::Case;
use crate::sample::DELETES;

/// It would say one thing to whoever reads it and another to whoever digests it.
#[test]
fn what_is_read_as_canonical_is_canonical_or_refused() {
    let crooked = [
        r#"{"b":1,"a":2}"#,
        r#"{ "a": 1 }"#,
        r#"{"a":1.0}"#,
        r#"{"a":1e2}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":"\u0041"}"#,
        r#"{"a":9007199254740993}"#,
        r#"{"a":-63359908420636920}"#,
    ];
    for text in crooked {
        let error = serde_json::from_str::<Canonical>(text).unwrap_err().to_string();
        assert!(error.contains("not in its canonical form"), "{text}: {error}");
    }
    for text in [r#"{"a":2,"b":1}"#, r#"{"a":1.5}"#, r#"{"a":1e+21}"#, "null", r#"["\u000f","€"]"#] {
        assert_eq!(serde_json::from_str::<Canonical>(text).unwrap().as_str(), text);
    }
}

#[test]
fn an_event_whose_arguments_were_respelt_is_not_read() {
    let stored = serde_json::to_string(&Case::new().issue(DELETES).events()[1]).unwrap();
    assert!(serde_json::from_str::<Event>(&stored).is_ok());
    let respelt = stored.replacen(r#""args":{"id":7}"#, r#""args":{"id":7.0}"#, 1);
    assert_ne!(respelt, stored);
    let error = serde_json::from_str::<Event>(&respelt).unwrap_err().to_string();
    assert!(error.contains("not in its canonical form"), "{error}");
}

#[test]
fn a_digest_has_one_spelling() {
    let digest = Digest::of(b"x").to_string();
    assert_eq!(digest.parse(), Ok(Digest::of(b"x")));
    let crooked =
        ["+f".repeat(32), digest.to_uppercase(), format!(" {}", &digest[1..]), digest[1..].to_owned()];
    for text in crooked {
        let error = text.parse::<Digest>().unwrap_err().to_string();
        assert_eq!(error, "a digest is 64 hexadecimal digits in lower case", "{text}");
        assert!(serde_json::from_str::<Digest>(&format!("\"{text}\"")).is_err(), "{text}");
    }
}
