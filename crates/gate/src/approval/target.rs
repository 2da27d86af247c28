//! Where a request goes: a URL, or a Service of the cluster.

use hitless_api::pod_transition_rule::{ClientConfig, Poll, ServiceReference};
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Bytes that stand for themselves in a query, RFC 3986 §2.3.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Name of the query parameter of a poll, unless the rule says another one.
const TASK_ID: &str = "task-id";

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Plain,
    /// `https`
    Tls,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the connection is encrypted.
    pub scheme: Scheme,
    /// Name or address to connect to; also the one that the certificate must be for.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Value of the `Host` header.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// User and password from the URL.
    pub credentials: Option<(String, String)>,
    /// Namespace and name of the Service that `host` means: it is reached by its cluster address, no DNS is needed.
    pub service: Option<(String, String)>,
}

impl Target {
    /// Reads a URL of a rule; `field` is its name there.
    ///
    /// # Errors
    /// What is wrong with it, beginning with the field.
    pub fn parse(url: &str, field: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("{field} {:?} {why}", without_credentials(url));
        let uri: Uri = url.trim().parse().map_err(|error| wrong(&format!("is no URL: {error}")))?;
        let (scheme, default) = match uri.scheme_str() {
            Some("https") => (Scheme::Tls, 443),
            Some("http") => (Scheme::Plain, 80),
            _ => return Err(wrong("must begin with https:// or http://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        let host = authority.host();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(wrong("names no host"));
        }
        let port = match authority.as_str().rsplit('@').next().unwrap_or_default().strip_prefix(host) {
            Some("" | ":") => default,
            _ => authority.port_u16().filter(|port| *port > 0).ok_or_else(|| wrong("has no usable port"))?,
        };
        let credentials = authority.as_str().rsplit_once('@').map(|(user, _)| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
            (decode(user), decode(password))
        });
        Ok(Self {
            scheme,
            host: bare.to_owned(),
            port,
            authority: with_port(host, port, default),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            credentials,
            service: service_of(bare),
        })
    }

    /// Reads a reference to a Service. It is always asked by TLS.
    ///
    /// # Errors
    /// If its names or its port make no URL.
    pub fn of_service(service: &ServiceReference) -> Result<Self, String> {
        let host = format!("{}.{}.svc", service.name, service.namespace);
        let path = service.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = format!("https://{host}:{}{slash}{path}", service.port.unwrap_or(443));
        Self::parse(&url, "webhook.clientConfig.service:")
    }

    /// Where a webhook's first question goes.
    ///
    /// # Errors
    /// What is wrong with the rule.
    pub fn of(client: &ClientConfig) -> Result<Self, String> {
        match &client.service {
            Some(service) => Self::of_service(service),
            None => Self::parse(&client.url, "webhook.clientConfig.url"),
        }
    }

    /// Where it is asked what became of a question.
    ///
    /// # Errors
    /// What is wrong with the rule.
    pub fn poll(poll: &Poll) -> Result<Self, String> {
        Self::parse(&poll.url, "webhook.clientConfig.poll.url")
    }

    /// The same with the task's id in its query.
    #[must_use]
    pub fn about_task(mut self, key: Option<&str>, id: &str) -> Self {
        let key = key.filter(|key| !key.is_empty()).unwrap_or(TASK_ID);
        let separator = match self.path.split_once('?') {
            None => "?",
            Some((_, query)) if query.is_empty() || query.ends_with('&') => "",
            Some(_) => "&",
        };
        let (key, id) = (utf8_percent_encode(key, QUERY), utf8_percent_encode(id, QUERY));
        self.path = format!("{}{separator}{key}={id}", self.path);
        self
    }
}

/// `<name>.<namespace>.svc`, with or without the usual domain behind it.
fn service_of(host: &str) -> Option<(String, String)> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let host = host.strip_suffix(".cluster.local").unwrap_or(host);
    let (name, namespace) = host.strip_suffix(".svc")?.split_once('.')?;
    (!name.is_empty() && !namespace.is_empty() && !namespace.contains('.'))
        .then(|| (namespace.to_owned(), name.to_owned()))
}

fn with_port(host: &str, port: u16, default: u16) -> String {
    if port == default { host.to_owned() } else { format!("{host}:{port}") }
}

/// The URL as it may be shown: whoever reads a rule's status need not be who may read its password.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("//") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rsplit_once('@') {
        Some((_, host)) => format!("{scheme}//…@{host}{}", &rest[end..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, host, port, authority, path) in [
            ("https://a.example/x?y=1", "a.example", 443, "a.example", "/x?y=1"),
            ("http://a.example", "a.example", 80, "a.example", "/"),
            ("https://10.0.0.1:8443/x#part", "10.0.0.1", 8443, "10.0.0.1:8443", "/x"),
            ("https://[::1]:8443", "::1", 8443, "[::1]:8443", "/"),
            ("https://[::1]/", "::1", 443, "[::1]", "/"),
            (" https://a:443/ ", "a", 443, "a", "/"),
            ("https://a:/", "a", 443, "a", "/"),
            ("https://u:p%40q@a:1/", "a", 1, "a:1", "/"),
        ] {
            let target = Target::parse(url, "url").unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
            assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path), "{url}");
        }
        let target = Target::parse("https://u:p%40q@a/", "url").unwrap();
        assert_eq!(target.credentials, Some(("u".into(), "p@q".into())), "as Go's client does");
    }

    #[test]
    fn what_is_no_url_is_said_to_be_none() {
        for url in [
            "",
            "a",
            "/x",
            "ftp://a",
            "https://",
            "https://:443",
            "https://a:99999",
            "https://a:0",
            "https://a b",
            "https://a:b",
        ] {
            let Err(text) = Target::parse(url, "webhook.clientConfig.url") else { panic!("{url} is taken") };
            assert!(text.starts_with("webhook.clientConfig.url"), "{text}");
        }
    }

    #[test]
    fn a_service_is_recognised_by_its_name_too() {
        let reference =
            ServiceReference { namespace: "ns".into(), name: "svc1".into(), path: Some("x".into()), port: None };
        let target = Target::of_service(&reference).unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("svc1.ns.svc", 443, "/x"));
        for (host, is_one) in [
            ("svc1.ns.svc", true),
            ("svc1.ns.svc.cluster.local", true),
            ("svc1.ns.svc.cluster.local.", true),
            ("a.svc1.ns.svc", false),
            ("ns.svc", false),
            ("svc1.ns.svc.example", false),
        ] {
            let target = Target::parse(&format!("https://{host}/"), "url").unwrap();
            assert_eq!(target.service, is_one.then(|| ("ns".to_owned(), "svc1".to_owned())), "{host}");
        }
        let bad = ServiceReference { namespace: "n s".into(), ..reference };
        assert!(Target::of_service(&bad).is_err());
    }

    #[test]
    fn a_task_joins_the_query_that_is_there() {
        let path = |url: &str, key, id| Target::parse(url, "url").unwrap().about_task(key, id).path;
        assert_eq!(path("https://a", None, "1"), "/?task-id=1");
        assert_eq!(path("https://a/p", Some(""), "1"), "/p?task-id=1");
        assert_eq!(path("https://a/p?x=y", Some("id"), "a b&c=d/é"), "/p?x=y&id=a%20b%26c%3Dd%2F%C3%A9");
        assert_eq!(path("https://a/p?", Some("i d"), "1-2_3.4~5"), "/p?i%20d=1-2_3.4~5");
    }

    #[test]
    fn a_fault_does_not_tell_the_password() {
        let Err(text) = Target::parse("ftp://user:secret@a.example/x?y", "url") else { panic!("it is taken") };
        assert_eq!(text, r#"url "ftp://…@a.example/x?y" must begin with https:// or http://"#);
        let Err(text) = Target::parse("ftp://a.example/x@y", "url") else { panic!("it is taken") };
        assert!(text.contains("a.example/x@y"), "{text}");
    }
}
