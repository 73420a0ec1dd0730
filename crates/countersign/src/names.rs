//! What people call users and the holders of tokens, so that a person reads a name and not only an id.
//!
//! Promise: a name never stands alone. Names can be given twice; the beginning of the id tells two of them apart, and the
//! records always have the id whole.

use std::collections::HashMap;

use crate::client::Client;
use crate::shown;

/// How much of an id is shown beside a name: its prefix and eight digits.
const SHORT_ID_CHARS: usize = 12;

/// Names by principal. Whoever may not see the tokens sees ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(HashMap<String, String>);

impl Names {
    /// The names that a server knows and this credential may see.
    pub(crate) async fn known_to(client: &Client) -> Self {
        let tokens = client.tokens().await.map(|list| list.items).unwrap_or_default();
        let users = client.users().await.map(|list| list.items).unwrap_or_default();
        let tokens = tokens.into_iter().map(|token| (token.token_id, token.name));
        Self(tokens.chain(users.into_iter().map(|user| (user.user_id, user.name))).collect())
    }

    /// A principal as a person reads it.
    pub(crate) fn of(&self, principal: &str) -> String {
        let id = shown::line(principal);
        match self.0.get(principal) {
            Some(name) => {
                let short: String = id.chars().take(SHORT_ID_CHARS).collect();
                format!("{} ({short}…)", shown::line(name))
            }
            None => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_beside_the_beginning_of_its_id() {
        let names = Names(HashMap::from([("tok_0123456789abcdef".to_owned(), "ann\u{202e}".to_owned())]));
        assert_eq!(names.of("tok_0123456789abcdef"), "ann⟦U+202E⟧ (tok_01234567…)");
        assert_eq!(names.of("somebody"), "somebody");
    }
}
