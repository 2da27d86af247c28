//! What HAProxy says to a command. Refusals are plain text, and only known texts mean something.

use crate::{PoolName, ProviderError, ServerName};

/// What a command is about.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) pool: &'a PoolName,
    pub(super) server: &'a ServerName,
}

/// Takes the answer of a command that says `word` when it is done.
pub(super) fn says(word: &str, target: Target<'_>, command: &str, answer: &str) -> Result<(), ProviderError> {
    // HAProxy's warnings, such as those about keywords, come before.
    let last = answer.trim_end().lines().next_back().unwrap_or_default();
    if last == word { Ok(()) } else { Err(refusal(target, command, answer)) }
}

/// Takes the answer of a command that says nothing when it is done.
pub(super) fn quiet(target: Target<'_>, command: &str, answer: &str) -> Result<(), ProviderError> {
    says("", target, command, answer)
}

/// A refusal that concerns the whole pool, if this answer is one.
pub(super) fn refused_pool(pool: &PoolName, command: &str, answer: &str) -> Option<ProviderError> {
    // Each of several commands on one connection gets its own answer; the first refusal is enough.
    match answer.lines().next().unwrap_or_default().trim_end() {
        "No such backend." | "Can't find backend." => Some(ProviderError::NoPool(pool.clone())),
        "Permission denied" => Some(ProviderError::Denied {
            request: command.to_owned(),
            remedy: "give the `stats socket` the level admin",
        }),
        answer if answer.starts_with("Unknown command") => Some(ProviderError::NotSupported {
            request: command.to_owned(),
            why: first_line(answer),
            remedy: "HAProxy 2.6 or newer is needed",
        }),
        _ => None,
    }
}

fn refusal(target: Target<'_>, command: &str, answer: &str) -> ProviderError {
    if let Some(refused) = refused_pool(target.pool, command, answer) {
        return refused;
    }
    let (pool, server) = (target.pool.clone(), target.server.clone());
    match answer.trim_end() {
        "No such server." => ProviderError::NoServer { pool, server },
        "Already exists a server with the same name in backend." => ProviderError::Exists { pool, server },
        why @ ("Server still has connections attached to it, cannot remove it."
        | "Only servers in maintenance mode can be deleted.") => {
            ProviderError::Busy { pool, server, why: why.trim_end_matches('.').to_owned() }
        }
        why @ "Backend must use a dynamic load balancing to support dynamic servers." => ProviderError::NotSupported {
            request: command.to_owned(),
            why: why.trim_end_matches('.').to_owned(),
            remedy: "set `balance` to roundrobin, leastconn or random, or `hash-type consistent`",
        },
        answer => ProviderError::Refused { request: command.to_owned(), answer: first_line(answer) },
    }
}

/// The beginning of a text that somebody else has written.
pub(super) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_target<T>(run: impl FnOnce(Target<'_>) -> T) -> T {
        let (pool, server) = (PoolName::new("shop").unwrap(), ServerName::new("hitless_10.0.0.1_80").unwrap());
        run(Target { pool: &pool, server: &server })
    }

    /// Recorded from HAProxy 2.6.12. An answer ends with one empty line or with none, by the command.
    fn refused(answer: &str) -> ProviderError {
        with_target(|target| says("Server deleted.", target, "del server shop/hitless_10.0.0.1_80", answer))
            .unwrap_err()
    }

    #[test]
    fn done_is_told_from_refused() {
        with_target(|target| {
            says("New server registered.", target, "add server", "New server registered.\n\n").unwrap();
            says("Server deleted.", target, "del server", "Server deleted.\n").unwrap();
            quiet(target, "set server", "\n").unwrap();
            says("New server registered.", target, "add server", "A warning.\nNew server registered.\n\n").unwrap();
            quiet(target, "set server", "A warning.\n\n").unwrap_err();
            quiet(target, "set server", "No such server.\n\n").unwrap_err();
        });
    }

    #[test]
    fn each_refusal_is_an_error_of_its_own() {
        assert!(matches!(refused("No such backend.\n"), ProviderError::NoPool(_)));
        assert!(matches!(refused("No such server.\n"), ProviderError::NoServer { .. }));
        assert!(matches!(
            refused("Already exists a server with the same name in backend.\n\n"),
            ProviderError::Exists { .. }
        ));
        assert!(matches!(refused("Only servers in maintenance mode can be deleted.\n"), ProviderError::Busy { .. }));
        assert!(matches!(
            refused("Server still has connections attached to it, cannot remove it.\n"),
            ProviderError::Busy { .. }
        ));
        assert!(matches!(refused("Permission denied\n\n"), ProviderError::Denied { .. }));
        assert!(matches!(
            refused("Backend must use a dynamic load balancing to support dynamic servers.\n"),
            ProviderError::NotSupported { .. }
        ));
        assert!(matches!(
            refused("Unknown command, but maybe one of the following ones is a better match:\n  quit\n\n"),
            ProviderError::NotSupported { .. }
        ));
        assert!(matches!(refused("unknown keyword 'nonsense'.\n\n"), ProviderError::Refused { .. }));
        assert!(matches!(refused(""), ProviderError::Refused { .. }));
    }

    #[test]
    fn a_refusal_says_what_why_and_what_to_do() {
        assert_eq!(
            refused("Permission denied\n\n").to_string(),
            "the load balancer denied \"del server shop/hitless_10.0.0.1_80\"; give the `stats socket` the level admin"
        );
    }
}
