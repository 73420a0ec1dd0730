//! Logging in to the console: by a link that is good once, or by a token; then a cookie.
//!
//! Promises: opening a link changes nothing, so that a scanner or a prefetch does not use it up; pressing its button
//! does, once. A login is a record in the store: logging out, disabling its user or revoking the token it was made with ends
//! it at once, whoever has the cookie. The cookie alone neither reads nor decides: every request needs the page's key too,
//! which is told once, at login, and kept by the page for its own origin. Browsers send a cookie to every port of a host, and
//! whoever listens there must not be able to do anything with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use countersign_core::ids::{LoginId, TokenId, UserId};
use countersign_core::time::Timestamp;
use countersign_kernel::ports::{Entropy as _, SystemEntropy};
use countersign_kernel::{Caller, Gateway, GatewayError};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// What the cookie's name begins with; the port follows, because browsers tell hosts apart and not ports.
pub(crate) const COOKIE: &str = "countersign";
/// How long a link is good.
const LINK_LIFE: Duration = Duration::from_secs(10 * 60);
/// How long a login lasts.
pub(crate) const COOKIE_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The most links that are good at once; the oldest give way.
const MAX_LINKS: usize = 100;

/// Links that were not used yet, and what cookies are sealed with.
pub(crate) struct Logins {
    key: [u8; 32],
    cookie: String,
    links: Mutex<HashMap<String, Link>>,
}

/// Whom a link logs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invited {
    pub(crate) user: UserId,
    /// The token that asked for the link, where it was for its own holder.
    pub(crate) token: Option<TokenId>,
}

struct Link {
    invited: Invited,
    expires_at: Timestamp,
}

/// What a login gives to a browser.
pub(crate) struct Pass {
    /// The cookie's value.
    pub(crate) cookie: String,
    /// What must come with every request. It is not told again.
    pub(crate) page_key: String,
}

impl Logins {
    /// Logins on a server that listens on this port.
    pub(crate) fn new(key: [u8; 32], port: u16) -> Self {
        Self { key, cookie: format!("{COOKIE}-{port}"), links: Mutex::default() }
    }

    /// The cookie's name.
    pub(crate) fn cookie_name(&self) -> &str {
        &self.cookie
    }

    /// A code that logs somebody in once, and until when it is good.
    pub(crate) fn invite(&self, invited: Invited, now: Timestamp) -> Option<(String, Timestamp)> {
        let code = hex(&[SystemEntropy.bits()?, SystemEntropy.bits()?].concat());
        let expires_at = now.after(LINK_LIFE);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| link.expires_at > now);
        if links.len() >= MAX_LINKS {
            let oldest = links.iter().min_by_key(|(_, link)| link.expires_at).map(|(code, _)| code.clone());
            oldest.map(|code| links.remove(&code));
        }
        links.insert(code.clone(), Link { invited, expires_at });
        Some((code, expires_at))
    }

    /// Whether a code could be used now. It stays good.
    pub(crate) fn is_good(&self, code: &str, now: Timestamp) -> bool {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(code).is_some_and(|link| link.expires_at > now)
    }

    /// Uses a code up: whom it logs in.
    pub(crate) fn redeem(&self, code: &str, now: Timestamp) -> Option<Invited> {
        let link = self.links.lock().unwrap_or_else(PoisonError::into_inner).remove(code)?;
        (link.expires_at > now).then_some(link.invited)
    }

    /// Logs a user in; nothing where they may not decide, or the token is no longer good.
    pub(crate) async fn log_in(
        &self,
        gateway: &Gateway,
        invited: Invited,
    ) -> Result<Option<Pass>, GatewayError> {
        let login = gateway.begin_login(invited.user, invited.token, COOKIE_LIFE).await?;
        Ok(login.map(|login| {
            let body = login.id.to_string();
            let seal = self.seal("cookie", &body);
            Pass { page_key: self.seal("page", &body), cookie: format!("{body}.{seal}") }
        }))
    }

    /// Who holds a cookie, and the login it is of; nobody where it is forged or the login has ended.
    pub(crate) async fn holder(
        &self,
        gateway: &Gateway,
        cookie: &str,
    ) -> Result<Option<(Caller, LoginId)>, GatewayError> {
        let Some((body, seal)) = cookie.rsplit_once('.') else { return Ok(None) };
        if !self.is_sealed("cookie", body, seal) {
            return Ok(None);
        }
        let Ok(login) = body.parse::<LoginId>() else { return Ok(None) };
        Ok(gateway.login_caller(login).await?.map(|caller| (caller, login)))
    }

    /// Whether this is the key that the pages of a login send.
    pub(crate) fn is_page_key(&self, login: LoginId, key: &str) -> bool {
        self.is_sealed("page", &login.to_string(), key)
    }

    /// The cookie of ours that a browser sent.
    pub(super) fn cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        all.flat_map(|line| line.split(';')).find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        })
    }

    fn mac(&self, purpose: &str, body: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(body.as_bytes());
        Some(mac)
    }

    fn seal(&self, purpose: &str, body: &str) -> String {
        self.mac(purpose, body).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default()
    }

    fn is_sealed(&self, purpose: &str, body: &str, seal: &str) -> bool {
        let bytes: Option<Vec<u8>> = (0..seal.len() / 2)
            .map(|i| seal.get(2 * i..2 * i + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
            .collect();
        // One seal has one spelling.
        let is_plain = seal.len() == 64 && seal.bytes().all(|b| !b.is_ascii_uppercase());
        match (self.mac(purpose, body), bytes) {
            (Some(mac), Some(bytes)) if is_plain => mac.verify_slice(&bytes).is_ok(),
            _ => false,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(1_000_000);
    fn somebody() -> Invited {
        Invited { user: UserId::from_random([7; 16]), token: None }
    }

    #[test]
    fn a_link_is_good_once_and_looking_at_it_uses_nothing_up() {
        let logins = Logins::new([1; 32], 7420);
        let (code, _) = logins.invite(somebody(), NOON).unwrap();
        assert!(logins.is_good(&code, NOON) && logins.is_good(&code, NOON));
        assert_eq!(logins.redeem(&code, NOON), Some(somebody()));
        assert!(!logins.is_good(&code, NOON));
        assert!(logins.redeem(&code, NOON).is_none());
    }

    #[test]
    fn a_link_is_good_for_ten_minutes_and_not_a_millisecond_more() {
        let logins = Logins::new([1; 32], 7420);
        let (code, expires_at) = logins.invite(somebody(), NOON).unwrap();
        assert_eq!(NOON.until(expires_at), LINK_LIFE);
        let before = Timestamp::from_millis(expires_at.as_millis() - 1);
        assert!(logins.is_good(&code, before) && !logins.is_good(&code, expires_at));
        assert!(logins.redeem(&code, expires_at).is_none());
    }

    #[test]
    fn the_oldest_of_too_many_links_gives_way() {
        let logins = Logins::new([1; 32], 7420);
        let (first, _) = logins.invite(somebody(), NOON).unwrap();
        let later = NOON.after(Duration::from_secs(1));
        for _ in 0..MAX_LINKS {
            logins.invite(somebody(), later).unwrap();
        }
        assert!(!logins.is_good(&first, later));
    }

    #[test]
    fn a_seal_is_for_one_body_one_purpose_and_one_key() {
        let (ours, theirs) = (Logins::new([1; 32], 7420), Logins::new([2; 32], 7420));
        let seal = ours.seal("cookie", "a");
        assert!(ours.is_sealed("cookie", "a", &seal));
        assert!(!ours.is_sealed("cookie", "b", &seal) && !ours.is_sealed("page", "a", &seal));
        assert!(!theirs.is_sealed("cookie", "a", &seal));
        for bad in ["", "zz", &seal[..62], &format!("{seal}00"), "é"] {
            assert!(!ours.is_sealed("cookie", "a", bad), "{bad}");
        }
    }
}
