//! The credentials of one source, as values that are added to a request last.
//!
//! Promise: a credential goes only to the origin it was configured for, no argument of a call can take its place, and
//! none is shown by `Debug` or by an error.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_sdk::{ExposeSecret, SecretString};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use crate::secrets::Secrets;

/// One credential and where it goes.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A header of any name: `X-Api-Key: …`.
    Header {
        #[expect(missing_docs, reason = "the name says it")]
        name: String,
        #[expect(missing_docs, reason = "the name says it")]
        value: SecretString,
    },
    /// A query parameter: `?api_key=…`.
    Query {
        #[expect(missing_docs, reason = "the name says it")]
        name: String,
        #[expect(missing_docs, reason = "the name says it")]
        value: SecretString,
    },
    /// `Authorization: Bearer …`.
    Bearer(SecretString),
    /// `Authorization: Basic …`.
    Basic {
        #[expect(missing_docs, reason = "the name says it")]
        user: String,
        #[expect(missing_docs, reason = "the name says it")]
        password: SecretString,
    },
}

/// Why a credential cannot be used. It does not say what the credential is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the credential for {place} has characters that HTTP does not take")]
pub struct BadCredential {
    place: String,
}

/// Adds every credential; each replaces what the request had in its place.
pub(super) fn apply(
    credentials: &[Credential],
    url: &mut Url,
    headers: &mut HeaderMap,
) -> Result<(), BadCredential> {
    for credential in credentials {
        match credential {
            Credential::Header { name, value } => {
                let header = HeaderName::try_from(name.as_str()).map_err(|_| bad(name))?;
                headers.insert(header, sensitive(name, value.expose_secret())?);
            }
            Credential::Query { name, value } => set_query(url, name, value.expose_secret()),
            Credential::Bearer(token) => {
                let text = format!("Bearer {}", token.expose_secret());
                headers.insert(AUTHORIZATION, sensitive("Authorization", &text)?);
            }
            Credential::Basic { user, password } => {
                let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
                headers.insert(AUTHORIZATION, sensitive("Authorization", &format!("Basic {pair}"))?);
            }
        }
    }
    Ok(())
}

/// What must never be echoed: every secret, and the pair that basic authentication makes of one.
pub(crate) fn secrets(credentials: &[Credential]) -> Secrets {
    let all: Vec<SecretString> = credentials
        .iter()
        .flat_map(|credential| match credential {
            Credential::Header { value, .. } | Credential::Query { value, .. } => vec![value.clone()],
            Credential::Bearer(token) => vec![token.clone()],
            Credential::Basic { user, password } => {
                vec![password.clone(), SecretString::from(format!("{user}:{}", password.expose_secret()))]
            }
        })
        .collect();
    Secrets::new(&all)
}

fn set_query(url: &mut Url, name: &str, value: &str) {
    let others: Vec<(String, String)> =
        url.query_pairs().filter(|(other, _)| other != name).map(|(k, v)| (k.into(), v.into())).collect();
    let replaces = url.query_pairs().any(|(other, _)| other == name);
    let mut pairs = url.query_pairs_mut();
    if replaces {
        pairs.clear().extend_pairs(others);
    }
    pairs.append_pair(name, value);
}

fn sensitive(place: &str, text: &str) -> Result<HeaderValue, BadCredential> {
    let mut value = HeaderValue::from_str(text).map_err(|_| bad(place))?;
    value.set_sensitive(true);
    Ok(value)
}

fn bad(place: &str) -> BadCredential {
    BadCredential { place: place.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(
        credentials: &[Credential],
        url: &str,
        headers: &[(&'static str, &'static str)],
    ) -> (String, HeaderMap) {
        let mut url = Url::parse(url).unwrap();
        let mut map: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        apply(credentials, &mut url, &mut map).unwrap();
        (url.to_string(), map)
    }

    #[test]
    fn several_credentials_are_sent_at_once_and_replace_what_an_argument_set() {
        let credentials = [
            Credential::Header { name: "X-Api-Key".into(), value: "key-1".into() },
            Credential::Query { name: "token".into(), value: "a b".into() },
            Credential::Basic { user: "me".into(), password: "pass".into() },
        ];
        let headers = [("x-api-key", "from an argument"), ("authorization", "from an argument")];
        let (url, headers) = applied(&credentials, "https://a.example/x?token=forged&q=%20y", &headers);
        assert_eq!(url, "https://a.example/x?q=+y&token=a+b");
        assert_eq!(headers["x-api-key"], "key-1");
        assert_eq!(headers["authorization"], "Basic bWU6cGFzcw==");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn a_query_without_the_credentials_name_stays_byte_for_byte() {
        let credentials = [Credential::Query { name: "key".into(), value: "v".into() }];
        assert_eq!(
            applied(&credentials, "https://a.example/x?q=%20y", &[]).0,
            "https://a.example/x?q=%20y&key=v"
        );
    }

    #[test]
    fn neither_debug_nor_an_error_shows_a_credential() {
        let bearer = Credential::Bearer("canary\nsecret".into());
        assert!(!format!("{bearer:?}").contains("canary"));
        let error = apply(&[bearer], &mut Url::parse("https://a.example").unwrap(), &mut HeaderMap::new())
            .unwrap_err();
        assert!(!format!("{error:?} {error}").contains("canary"));
    }
}
