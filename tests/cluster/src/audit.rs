//! API writes, as the API server's audit log has them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// One write to the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Write {
    /// When it arrived.
    pub received: Timestamp,
    /// When it was answered.
    pub time: Timestamp,
    /// User name, for instance `system:serviceaccount:hitless-system:hitless-agent`.
    pub user: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verb: String,
    /// Resource, with subresource: `pods`, `pods/status`. For a request to no resource, its path.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty where the server chose it.
    pub name: String,
    /// HTTP status code.
    pub code: u16,
}

/// Equal writes, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WriteCount {
    /// User name.
    pub user: String,
    /// Verb.
    pub verb: String,
    /// Resource with subresource.
    pub resource: String,
    /// HTTP status code.
    pub code: u16,
    /// How many.
    pub count: usize,
}

/// Counts writes by user, verb, resource and code, in that order.
#[must_use]
pub fn count_writes(writes: &[Write]) -> Vec<WriteCount> {
    let mut counts: BTreeMap<(&str, &str, &str, u16), usize> = BTreeMap::new();
    for write in writes {
        *counts.entry((&write.user, &write.verb, &write.resource, write.code)).or_default() += 1;
    }
    let rows = counts.into_iter().map(|((user, verb, resource, code), count)| WriteCount {
        user: user.to_owned(),
        verb: verb.to_owned(),
        resource: resource.to_owned(),
        code,
        count,
    });
    rows.collect()
}

/// The writes of an audit log since a moment.
pub(crate) fn read(path: &Path, since: Timestamp) -> Result<Vec<Write>> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let begin = format!("{since:.6}");
    let mut writes = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(Error::file("read", path))?;
        if is_earlier(&line, &begin) {
            continue;
        }
        match parse(&line) {
            Ok(write) => writes.extend(write.filter(|write| write.time >= since)),
            // The last line may be half-written at this moment.
            Err(error) if error.is_eof() => {}
            Err(source) => return Err(Error::Json { path: path.to_path_buf(), source }),
        }
    }
    Ok(writes)
}

/// Whether the line's request ended before `begin`, told without parsing the rest of it: a log has some hundred thousand lines. The API server
/// writes times in UTC with six digits of the second (`metav1.MicroTime`), so their order is that of their letters.
fn is_earlier(line: &str, begin: &str) -> bool {
    let after = line.rsplit_once(r#""stageTimestamp":""#).map(|(_, after)| after);
    after.and_then(|after| after.split('"').next()).is_some_and(|time| time < begin)
}

/// The parts of an `audit.k8s.io/v1` Event that are counted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    #[serde(rename = "requestURI", default)]
    request_uri: String,
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// One line of the log; none if it is not the end of a request.
fn parse(line: &str) -> Result<Option<Write>, serde_json::Error> {
    let event: Event = serde_json::from_str(line)?;
    if event.stage != "ResponseComplete" && event.stage != "Panic" {
        return Ok(None);
    }
    let object = event.object_ref.unwrap_or_default();
    let resource = match (object.resource.is_empty(), object.subresource.is_empty()) {
        (true, _) => event.request_uri,
        (false, true) => object.resource,
        (false, false) => format!("{}/{}", object.resource, object.subresource),
    };
    Ok(Some(Write {
        received: event.request_received_timestamp,
        time: event.stage_timestamp,
        user: event.user.username,
        verb: event.verb,
        resource,
        namespace: object.namespace,
        name: object.name,
        code: event.response_status.map_or(0, |status| status.code),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(time: &str, user: &str, subresource: &str, code: u16) -> String {
        format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/d/pods/p","verb":"patch","user":{{"username":"{user}","groups":["g"]}},"sourceIPs":["172.31.255.11"],"objectRef":{{"resource":"pods","namespace":"d","name":"p","apiVersion":"v1"{subresource}}},"responseStatus":{{"metadata":{{}},"code":{code}}},"requestReceivedTimestamp":"{time}","stageTimestamp":"{time}"}}"#
        )
    }

    #[test]
    fn writes_since_a_moment_are_read_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        let status = r#","subresource":"status""#;
        let lines = [
            line("2026-11-21T17:00:00.000001Z", "early", "", 200),
            line("2026-11-21T17:00:10.000001Z", "agent", status, 200),
            line("2026-11-21T17:00:11.000001Z", "agent", status, 200),
            line("2026-11-21T17:00:12.000001Z", "agent", status, 409),
            line("2026-11-21T17:00:13.000001Z", "agent", "", 200),
            r#"{"kind":"Event","stage":"Resp"#.to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let writes = read(&path, "2026-11-21T17:00:05Z".parse().unwrap()).unwrap();
        let counts: Vec<(String, u16, usize)> =
            count_writes(&writes).into_iter().map(|row| (row.resource, row.code, row.count)).collect();
        assert_eq!(counts, [("pods".into(), 200, 1), ("pods/status".into(), 200, 2), ("pods/status".into(), 409, 1)]);
        let all = |since: &str| read(&path, since.parse().unwrap()).unwrap().len();
        assert_eq!(
            (all("2026-11-21T17:00:00Z"), all("2026-11-21T17:00:13.000001Z"), all("2026-11-21T18:00:00Z")),
            (5, 1, 0)
        );
        assert_eq!((writes[0].namespace.as_str(), writes[0].name.as_str()), ("d", "p"));
    }

    #[test]
    fn garbage_in_the_middle_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit");
        std::fs::write(&path, "garbage\n").unwrap();
        let error = read(&path, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(error.to_string().contains("audit"), "{error}");
    }
}
