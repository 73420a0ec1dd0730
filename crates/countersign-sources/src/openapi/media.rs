//! Media types: which one is chosen, and what kind it is.

/// What kind of body a media type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaKind {
    Json,
    Form,
    Multipart,
    Text,
    Binary,
}

/// The kind of a media type.
pub(super) fn kind(media: &str) -> MediaKind {
    let media = essence(media);
    match media.as_str() {
        _ if is_json(&media) => MediaKind::Json,
        "application/x-www-form-urlencoded" => MediaKind::Form,
        _ if media.starts_with("multipart/") => MediaKind::Multipart,
        _ if is_text(&media) => MediaKind::Text,
        _ => MediaKind::Binary,
    }
}

/// Whether a media type is JSON, by its name or its suffix.
pub(super) fn is_json(media: &str) -> bool {
    let media = essence(media);
    media == "application/json" || media.ends_with("/json") || media.ends_with("+json")
}

/// The media type that is used where a document offers several: plain JSON, a merge patch, other JSON, then what is
/// easiest to write.
pub(super) fn preferred<'m>(offered: impl Iterator<Item = &'m str>) -> Option<&'m str> {
    let rank = |media: &str| match (essence(media).as_str(), kind(media)) {
        ("application/json", _) => 0,
        ("application/merge-patch+json", _) => 1,
        // A JSON patch is a list of steps, and documents describe the resource instead.
        ("application/json-patch+json", _) => 3,
        (_, MediaKind::Json) => 2,
        (_, MediaKind::Multipart) => 4,
        (_, MediaKind::Form) => 5,
        (_, MediaKind::Text) => 6,
        (_, MediaKind::Binary) => 7,
    };
    offered.min_by_key(|media| rank(media))
}

/// Whether a text can be the value of `Content-Type`.
pub(super) fn is_media_type(text: &str) -> bool {
    let token = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-*".contains(&b))
    };
    let (essence, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_type = essence.trim().split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype));
    is_type && parameters.bytes().all(|b| (b' '..=b'~').contains(&b))
}

fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn is_text(media: &str) -> bool {
    media.starts_with("text/")
        || media.ends_with("+xml")
        || media.ends_with("+yaml")
        || matches!(
            media,
            "application/xml"
                | "application/yaml"
                | "application/x-yaml"
                | "application/graphql"
                | "application/javascript"
                | "application/x-ndjson"
                | "application/sql"
                | "application/jwt"
                | "application/jose"
        )
}
