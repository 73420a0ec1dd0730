//! Which effects an operation has, by its method and its words.
//!
//! Promise: only a GET can be `read_only`, and none whose identifier, path or summary says that it changes something.
//! Published documents have hundreds of such GETs: Slack's `GET /auth.revoke`, AWS's `GET_DeleteDBCluster`, Kubernetes'
//! `connectCoreV1GetNamespacedPodExec`. A read that is wrongly held costs a question; the reverse costs data.

use countersign_sdk::Effects;

use super::words::words;

/// Verbs that are hardly ever nouns: they count wherever they stand.
const ALWAYS: [&str; 46] = [
    "abort",
    "cancel",
    "deactivate",
    "decommission",
    "delete",
    "deprovision",
    "deregister",
    "destroy",
    "detach",
    "disable",
    "disassociate",
    "disconnect",
    "downgrade",
    "erase",
    "evict",
    "exec",
    "execute",
    "expunge",
    "impersonate",
    "invalidate",
    "invoke",
    "kill",
    "overwrite",
    "purge",
    "reboot",
    "reinstall",
    "remove",
    "resend",
    "reset",
    "restart",
    "revoke",
    "rotate",
    "send",
    "shutdown",
    "stop",
    "suspend",
    "terminate",
    "truncate",
    "unassign",
    "uninstall",
    "unlink",
    "unpublish",
    "unregister",
    "unsubscribe",
    "withdraw",
    "wipe",
];

/// Verbs that are nouns or adjectives elsewhere ("a merge request", "open issues"): they count where an order begins, as the
/// first word of a summary or of an identifier's last part, and as a path's whole last word where that is no noun.
const IN_FRONT: [(&str, AsLastPathWord); 82] = [
    ("accept", AsLastPathWord::Verb),
    ("acknowledge", AsLastPathWord::Verb),
    ("activate", AsLastPathWord::Verb),
    ("add", AsLastPathWord::Verb),
    ("allocate", AsLastPathWord::Verb),
    ("apply", AsLastPathWord::Verb),
    ("approve", AsLastPathWord::Verb),
    ("archive", AsLastPathWord::Noun),
    ("assign", AsLastPathWord::Verb),
    ("associate", AsLastPathWord::Noun),
    ("attach", AsLastPathWord::Verb),
    ("authorize", AsLastPathWord::Noun),
    ("ban", AsLastPathWord::Noun),
    ("block", AsLastPathWord::Noun),
    ("change", AsLastPathWord::Noun),
    ("charge", AsLastPathWord::Noun),
    ("clear", AsLastPathWord::Verb),
    ("clone", AsLastPathWord::Noun),
    ("close", AsLastPathWord::Verb),
    ("commit", AsLastPathWord::Noun),
    ("confirm", AsLastPathWord::Verb),
    ("connect", AsLastPathWord::Noun),
    ("copy", AsLastPathWord::Noun),
    ("create", AsLastPathWord::Verb),
    ("deploy", AsLastPathWord::Verb),
    ("dispatch", AsLastPathWord::Noun),
    ("drop", AsLastPathWord::Noun),
    ("edit", AsLastPathWord::Noun),
    ("enable", AsLastPathWord::Verb),
    ("enroll", AsLastPathWord::Verb),
    ("expire", AsLastPathWord::Verb),
    ("flush", AsLastPathWord::Verb),
    ("force", AsLastPathWord::Noun),
    ("grant", AsLastPathWord::Noun),
    ("import", AsLastPathWord::Noun),
    ("insert", AsLastPathWord::Verb),
    ("install", AsLastPathWord::Verb),
    ("invite", AsLastPathWord::Noun),
    ("join", AsLastPathWord::Verb),
    ("launch", AsLastPathWord::Noun),
    ("leave", AsLastPathWord::Noun),
    ("lock", AsLastPathWord::Noun),
    ("logout", AsLastPathWord::Verb),
    ("make", AsLastPathWord::Noun),
    ("mark", AsLastPathWord::Noun),
    ("merge", AsLastPathWord::Noun),
    ("modify", AsLastPathWord::Verb),
    ("move", AsLastPathWord::Noun),
    ("pause", AsLastPathWord::Verb),
    ("pay", AsLastPathWord::Noun),
    ("perform", AsLastPathWord::Noun),
    ("promote", AsLastPathWord::Verb),
    ("provision", AsLastPathWord::Noun),
    ("publish", AsLastPathWord::Verb),
    ("push", AsLastPathWord::Noun),
    ("redeploy", AsLastPathWord::Verb),
    ("refund", AsLastPathWord::Noun),
    ("regenerate", AsLastPathWord::Verb),
    ("register", AsLastPathWord::Noun),
    ("reject", AsLastPathWord::Verb),
    ("release", AsLastPathWord::Noun),
    ("rename", AsLastPathWord::Verb),
    ("replace", AsLastPathWord::Verb),
    ("rerun", AsLastPathWord::Verb),
    ("restore", AsLastPathWord::Noun),
    ("resume", AsLastPathWord::Noun),
    ("retry", AsLastPathWord::Verb),
    ("revert", AsLastPathWord::Verb),
    ("rollback", AsLastPathWord::Verb),
    ("run", AsLastPathWord::Noun),
    ("schedule", AsLastPathWord::Noun),
    ("set", AsLastPathWord::Verb),
    ("start", AsLastPathWord::Verb),
    ("submit", AsLastPathWord::Verb),
    ("subscribe", AsLastPathWord::Verb),
    ("switch", AsLastPathWord::Noun),
    ("transfer", AsLastPathWord::Noun),
    ("trigger", AsLastPathWord::Noun),
    ("unlock", AsLastPathWord::Verb),
    ("update", AsLastPathWord::Verb),
    ("upload", AsLastPathWord::Noun),
    ("write", AsLastPathWord::Verb),
];

/// What a word is where a path ends with it: `GET /pulls/{n}/merge` asks for a state, `GET /jobs/{id}/start` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AsLastPathWord {
    Verb,
    Noun,
}

/// What is known of an operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Described<'d> {
    pub(super) method: &'d str,
    pub(super) path: &'d str,
    pub(super) operation_id: Option<&'d str>,
    pub(super) summary: Option<&'d str>,
}

/// The effects of an operation, before the operator's settings.
pub(super) fn effects(operation: Described<'_>) -> Effects {
    let reads = operation.method == "GET" && !says_change(operation);
    Effects {
        destructive: !reads,
        idempotent: false,
        open_world: true,
        read_only: reads,
        ..Effects::default()
    }
}

fn says_change(operation: Described<'_>) -> bool {
    operation.operation_id.is_some_and(name_says_change)
        || path_says_change(operation.path)
        || operation.summary.is_some_and(summary_says_change)
}

/// Whether an identifier says that what it names changes something.
pub(crate) fn name_says_change(id: &str) -> bool {
    if words(id).iter().any(|word| ALWAYS.contains(&word.as_str())) {
        return true;
    }
    let parts: Vec<&str> = id.split(['/', '.', '_', ':']).filter(|part| !part.is_empty()).collect();
    // AWS puts the method in front: `GET_CreateDBCluster`.
    let parts = match parts.as_slice() {
        [first, rest @ ..] if first.eq_ignore_ascii_case("get") && !rest.is_empty() => rest,
        all => all,
    };
    let fronts = [parts.first(), parts.last()];
    fronts.into_iter().flatten().any(|part| words(part).first().is_some_and(|word| is_in_front(word)))
}

fn path_says_change(path: &str) -> bool {
    let literals = || path.split('/').filter(|segment| !segment.is_empty() && !segment.contains('{'));
    if literals().flat_map(words).any(|word| ALWAYS.contains(&word.as_str())) {
        return true;
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    let last = last.rsplit(['.', ':', '}']).next().unwrap_or_default();
    match words(last).as_slice() {
        [only] => IN_FRONT.contains(&(only.as_str(), AsLastPathWord::Verb)),
        // `chat.postMessage`, `:setIamPolicy`
        [first, ..] => IN_FRONT.contains(&(first.as_str(), AsLastPathWord::Verb)),
        [] => false,
    }
}

fn summary_says_change(summary: &str) -> bool {
    let words = words(summary);
    words.iter().enumerate().any(|(at, word)| {
        let begins = at == 0 || matches!(words[at - 1].as_str(), "and" | "or" | "then");
        let verb = base_form(word);
        ALWAYS.contains(&word.as_str())
            || (begins && (ALWAYS.contains(&verb) || at == 0 && is_in_front(verb)))
    })
}

fn is_in_front(word: &str) -> bool {
    IN_FRONT.iter().any(|(verb, _)| *verb == word)
}

/// `deletes` is `delete`: summaries are often in the third person.
fn base_form(word: &str) -> &str {
    word.strip_suffix('s').unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_read(path: &str, operation_id: &str, summary: &str) -> bool {
        let said = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let described =
            Described { method: "GET", path, operation_id: said(operation_id), summary: said(summary) };
        effects(described).read_only
    }

    #[test]
    fn a_get_whose_words_say_change_is_destructive() {
        for (path, id, summary) in [
            ("/auth.revoke", "auth_revoke", ""),
            ("/apps.uninstall", "apps_uninstall", "Uninstalls your app from a workspace."),
            ("/#Action=DeleteDBCluster", "GET_DeleteDBCluster", ""),
            ("/x", "GET_CreateDBCluster", ""),
            ("/x", "GET_ModifyDBCluster", ""),
            ("/api/v1/namespaces/{namespace}/pods/{name}/exec", "connectCoreV1GetNamespacedPodExec", ""),
            ("/api/v1/namespaces/{namespace}/pods/{name}/proxy", "connectCoreV1GetNamespacedPodProxy", ""),
            ("/jobs/{id}/start", "", ""),
            ("/users/{id}:setPassword", "", ""),
            ("/messages/next", "", "Fetches and deletes the oldest message"),
            ("/cache", "", "Clears the cache"),
            ("/mail", "", "This will send the mail"),
        ] {
            assert!(!is_read(path, id, summary), "{path} {id} {summary}");
        }
    }

    #[test]
    fn a_get_that_only_names_such_things_reads() {
        for (path, id, summary) in [
            ("/repos/{owner}/{repo}/issues", "issues/list-for-repo", "List repository issues"),
            ("/user/blocks", "users/list-blocked-by-authenticated-user", "List users blocked"),
            (
                "/repos/{owner}/{repo}/pulls/{n}/merge",
                "pulls/check-if-merged",
                "Check if a pull request has been merged",
            ),
            ("/repos/{owner}/{repo}/import", "migrations/get-import-status", "Get an import status"),
            ("/events", "listDeletedEvents", "List deleted events"),
            ("/settings", "settings_get", "Get settings"),
            ("/address", "getAddress", "Address of the sender"),
        ] {
            assert!(is_read(path, id, summary), "{path} {id} {summary}");
        }
    }

    #[test]
    fn every_other_method_is_destructive() {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let described =
                Described { method, path: "/search", operation_id: None, summary: Some("Search") };
            assert!(effects(described).destructive && !effects(described).read_only, "{method}");
        }
    }
}
