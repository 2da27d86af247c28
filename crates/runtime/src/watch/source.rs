//! Lists and watches as text, object by object. kube's own client reads a whole page, and its watcher makes three trees of each object.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use futures::AsyncBufReadExt as _;
use hitless_api::json_text;
use kube::api::{GetParams, ListParams, Patch, PatchParams};
use kube::core::{Request, Status};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::Error as _;
use tokio::time::timeout;

use super::Selection;
use super::items::{Items, NoList};

/// How long one request of a watch lasts; then the next one goes on where it ended (the value of kube's and client-go's watchers).
const WATCH_SECONDS: u32 = 290;
/// A connection on which nothing comes for so long is dead: the API server would have ended the request.
const SILENT_WATCH: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// The API server answers a list within its own limit of a minute.
const SILENT_LIST: Duration = Duration::from_secs(65);
/// Where objects of one kind are: in one namespace or in all.
#[derive(Clone)]
pub struct Source {
    client: Client,
    path: String,
}

impl<K: Resource> From<Api<K>> for Source {
    fn from(api: Api<K>) -> Self {
        Self { path: api.resource_url().to_owned(), client: api.into_client() }
    }
}

/// Why a list or watch has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interruption {
    /// The API server refused the request, or did not answer.
    #[error(transparent)]
    Refused(#[from] kube::Error),
    /// It said so in the course of a watch.
    #[error("{}", .0.message)]
    Told(Box<Status>),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// Nothing came for too long.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// The answer to a list can't be used.
    #[error(transparent)]
    NoList(#[from] NoList),
    /// A list or an event without a version: there is nothing to go on from.
    #[error("the answer has no resourceVersion")]
    NoVersion,
    /// A line of a watch can't be used.
    #[error("what came is no event: {0}")]
    NoEvent(#[from] serde_json::Error),
}

impl Interruption {
    /// HTTP status of the API server's answer, if it is one.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(kube::Error::Api(status)) | Self::Told(status) => Some(status.code),
            Self::Refused(_)
            | Self::Broken(_)
            | Self::Silent(_)
            | Self::NoList(_)
            | Self::NoVersion
            | Self::NoEvent(_) => None,
        }
    }

    /// The server's own words where there are some; the error's text repeats them with everything else it has.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Refused(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// What a watch has told, with the text of the object.
pub(super) enum Event<'t> {
    /// It is new, or has changed.
    Apply(&'t str),
    /// It is gone; as it was last.
    Delete(&'t str),
}

impl Source {
    /// Reads all objects; `each` gets the text of every one. Says of which version the list is. `known`: a version that was seen before.
    pub(super) async fn list(
        &self,
        selection: &Selection,
        known: Option<&str>,
        mut each: impl FnMut(&str),
    ) -> Result<String, Interruption> {
        let mut page = selection.list_params(known);
        loop {
            let request = Request::new(&self.path).list(&page).map_err(kube::Error::BuildRequest)?;
            let mut answer = std::pin::pin!(self.client.request_stream(request).await?);
            let mut items = Items::default();
            loop {
                let read = timeout(SILENT_LIST, answer.fill_buf()).await;
                let bytes = read.map_err(|_| Interruption::Silent(SILENT_LIST))??;
                if bytes.is_empty() {
                    break;
                }
                items.take(bytes, |item| {
                    if let Ok(text) = str::from_utf8(item) {
                        each(text);
                    }
                })?;
                let length = bytes.len();
                answer.consume_unpin(length);
            }
            let meta = items.end()?;
            if meta.r#continue.is_empty() {
                return Some(meta.resource_version)
                    .filter(|version| !version.is_empty())
                    .ok_or(Interruption::NoVersion);
            }
            page = ListParams {
                continue_token: Some(meta.r#continue),
                resource_version: None,
                version_match: None,
                ..page
            };
        }
    }

    /// What changes after that version, until the API server ends the request. `version` follows what was told.
    pub(super) async fn watch(
        &self,
        selection: &Selection,
        version: &mut String,
        mut each: impl FnMut(Event<'_>),
    ) -> Result<(), Interruption> {
        let params = selection.watch_params(WATCH_SECONDS);
        let request = Request::new(&self.path).watch(&params, version).map_err(kube::Error::BuildRequest)?;
        let mut answer = std::pin::pin!(self.client.request_stream(request).await?);
        loop {
            let mut line = Vec::new();
            match timeout(SILENT_WATCH, answer.read_until(b'\n', &mut line)).await {
                Err(_) => return Err(Interruption::Silent(SILENT_WATCH)),
                Ok(Err(error)) if is_end(&error) => return Ok(()),
                Ok(Err(error)) => return Err(error.into()),
                // What was cut off comes again.
                Ok(Ok(_)) if line.last() != Some(&b'\n') => return Ok(()),
                Ok(Ok(_)) => {}
            }
            let line = str::from_utf8(&line).map_err(serde_json::Error::custom)?;
            let Some(object) = json_text::field(line, &["object"])? else { return Err(no_event(line)) };
            match json_text::field(line, &["type"])? {
                Some("\"ADDED\"" | "\"MODIFIED\"") => {
                    *version = version_of(object)?;
                    each(Event::Apply(object));
                }
                Some("\"DELETED\"") => {
                    *version = version_of(object)?;
                    each(Event::Delete(object));
                }
                Some("\"BOOKMARK\"") => *version = version_of(object)?,
                Some("\"ERROR\"") => return Err(Interruption::Told(serde_json::from_str(object)?)),
                _ => return Err(no_event(line)),
            }
        }
    }

    /// The text of one object, if it is there.
    ///
    /// # Errors
    /// If the API server does not answer so.
    pub async fn get(&self, name: &str) -> kube::Result<Option<String>> {
        let request = Request::new(&self.path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Changes one object, or its status where `subresource` says so; the text of what it is then.
    ///
    /// # Errors
    /// If the API server does not do so.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        subresource: Option<&str>,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<String> {
        let request = Request::new(&self.path);
        let request = match subresource {
            Some(part) => request.patch_subresource(part, name, params, patch),
            None => request.patch(name, params, patch),
        };
        self.client.request_text(request.map_err(kube::Error::BuildRequest)?).await
    }
}

fn version_of(object: &str) -> Result<String, Interruption> {
    let version = json_text::field(object, &["metadata", "resourceVersion"])?;
    let version = version.map(|version| version.trim_matches('"').to_owned());
    version.filter(|version| !version.is_empty()).ok_or(Interruption::NoVersion)
}

/// A line that is no event: an answer of another kind, or nothing that is known.
fn no_event(line: &str) -> Interruption {
    match serde_json::from_str::<Status>(line) {
        Ok(status) if status.code != 0 => Interruption::Told(Box::new(status)),
        Ok(_) | Err(_) => serde_json::Error::custom("neither a change nor an error").into(),
    }
}

/// Whether a connection ended as it does when a request of a watch has lasted its time, or the API server is stopped: without the last
/// piece that HTTP asks for. kube's client takes it the same way.
fn is_end(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(each) = cause {
        let kind = each.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::UnexpectedEof) || each.to_string().contains("unexpected EOF during chunk") {
            return true;
        }
        cause = each.source();
    }
    false
}
