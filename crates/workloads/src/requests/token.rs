//! Tokens of restarts: whose a restart is that a grant carries out.

use hitless_api::Grant;
use hitless_api::names::annotations;

/// Tokens of jobs begin so; those of people and programs do not.
pub(crate) const TOKEN: &str = "job-";

/// The token of the restart that the grant carries out.
#[must_use]
pub fn token_of(grant: &Grant) -> Option<&str> {
    grant.annotations.get(annotations::RESTARTED)?.to.as_deref().map(asked)
}

/// The token of whoever asked for the restart that a pod, or a grant, records so.
#[must_use]
pub fn asked(recorded: &str) -> &str {
    parts(recorded).map_or(recorded, |(job, _)| job)
}

/// The token of the last restart by annotation that a pod records so: behind that of a job stands the one that was carried out before,
/// which would else be carried out once more.
#[must_use]
pub fn annotated(recorded: &str) -> Option<&str> {
    if is_token(recorded) { parts(recorded).map(|(_, annotated)| annotated) } else { Some(recorded) }
}

/// What a restart with this token records on a pod on which that of a restart by annotation stands.
pub(crate) fn recorded(token: &str, annotated: Option<&str>) -> String {
    match annotated.filter(|_| is_token(token)) {
        Some(annotated) => format!("{token}+{annotated}"),
        None => token.to_owned(),
    }
}

fn parts(recorded: &str) -> Option<(&str, &str)> {
    recorded.split_once('+').filter(|_| is_token(recorded))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_jobs_token_stands_the_restart_by_annotation_that_was_carried_out_before() {
        let both = recorded("job-u.1", Some("today+1"));
        assert_eq!((asked(&both), annotated(&both)), ("job-u.1", Some("today+1")));
        assert_eq!((asked("job-u"), annotated("job-u")), ("job-u", None));
        assert_eq!((asked("a+b"), annotated("a+b")), ("a+b", Some("a+b")), "a token of people's");
        assert_eq!(recorded("again", Some("today")), "again", "the next one by annotation");
    }
}
