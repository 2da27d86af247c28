//! Tokens of restarts: whose a restart is that a grant carries out.

use hitless_api::Grant;
use hitless_api::names::annotations;

/// Tokens of jobs begin so; those of people and programs do not.
pub(crate) const TOKEN: &str = "job-";

/// The token of the restart that the grant carries out.
#[must_use]
pub fn token_of(grant: &Grant) -> Option<&str> {
    grant.annotations.get(annotations::RESTARTED)?.to.as_deref()
}

/// What the job with this uid leaves on its pods (annotation `hitless.dev/restarted`).
#[must_use]
pub fn token(uid: &str) -> String {
    format!("{TOKEN}{uid}")
}

/// Whether it is the token of a job.
pub(crate) fn is_token(token: &str) -> bool {
    token.starts_with(TOKEN)
}
