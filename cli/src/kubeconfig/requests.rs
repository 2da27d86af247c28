//! What the command line says of all requests: that the API server only tries what is written, and how long an answer may take.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Method, Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// How requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// Writes go through all checks of the API server, and are not kept (kubectl's `--dry-run=server`).
    pub(crate) dry_run: bool,
    /// So long the API server may take until it begins to answer (kubectl's `--request-timeout`). A watch answers for as long as it lasts.
    pub(crate) timeout: Option<Duration>,
}

impl Requests {
    /// The client that sends them so.
    pub(super) fn over(self, client: Client) -> Client {
        if self == Self::default() {
            return client;
        }
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| self.send(client.clone(), request));
        Client::new(service, namespace)
    }

    async fn send(self, client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let request = if self.dry_run && is_kept(&request) { tried(request)? } else { request };
        let limit = self.timeout.filter(|_| !is_watch(request.uri()));
        let answer = client.send(request);
        let Some(limit) = limit else { return Ok(answer.await?) };
        let late = |_| format!("the API server has not answered within {limit:?}, as --request-timeout says");
        Ok(tokio::time::timeout(limit, answer).await.map_err(late)??)
    }
}

/// It writes something. Questions about rights are asked by writes, too, and nothing is kept of them.
fn is_kept(request: &Request<Body>) -> bool {
    let is_review = ["/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"];
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && !is_review.iter().any(|group| request.uri().path().starts_with(group))
}

fn is_watch(uri: &Uri) -> bool {
    let parameters = uri.query().unwrap_or_default();
    parameters.split('&').any(|parameter| matches!(parameter, "watch" | "watch=true" | "watch=1"))
}

/// The request as a dry run. One that is a dry run already stays as it is.
fn tried(request: Request<Body>) -> Result<Request<Body>, http::Error> {
    let (mut head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    if !query.contains("dryRun=") {
        let sign = if query.is_empty() { "" } else { "&" };
        let path = format!("{}?{query}{sign}dryRun=All", head.uri.path());
        let mut uri = head.uri.into_parts();
        uri.path_and_query = Some(path.parse::<PathAndQuery>()?);
        head.uri = Uri::from_parts(uri)?;
    }
    Ok(Request::from_parts(head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, uri: &str) -> Request<Body> {
        Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
    }

    /// The path that the API server is asked for.
    async fn asked(requests: Requests, method: Method, uri: &str) -> String {
        let answers = service_fn(|request: Request<Body>| async move {
            Ok::<_, BoxError>(Response::new(Body::from(request.uri().to_string().into_bytes())))
        });
        let client = requests.over(Client::new(answers, "shop"));
        assert_eq!(client.default_namespace(), "shop");
        client.request_text(request(method, uri).map(|_| Vec::new())).await.unwrap()
    }

    #[tokio::test]
    async fn a_dry_run_is_one_of_every_write_and_of_nothing_else() {
        let dry = Requests { dry_run: true, timeout: None };
        let pod = "/api/v1/namespaces/shop/pods/a";
        for method in [Method::PATCH, Method::PUT, Method::DELETE, Method::POST] {
            assert_eq!(asked(dry, method, pod).await, format!("{pod}?dryRun=All"));
        }
        let managed = format!("{pod}?fieldManager=x");
        assert_eq!(asked(dry, Method::PATCH, &managed).await, format!("{managed}&dryRun=All"));
        let once = format!("{pod}?dryRun=All");
        assert_eq!(asked(dry, Method::PATCH, &once).await, once);
        assert_eq!(asked(dry, Method::GET, pod).await, pod);
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(asked(dry, Method::POST, review).await, review);
        assert_eq!(asked(Requests::default(), Method::PATCH, pod).await, pod);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_too_long_is_told_and_a_watch_is_waited_for() {
        let slow = service_fn(|_: Request<Body>| async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Ok::<_, BoxError>(Response::new(Body::from(b"late".to_vec())))
        });
        let client = Requests { dry_run: false, timeout: Some(Duration::from_secs(5)) }.over(Client::new(slow, "shop"));
        let ask = async |uri: &str| client.request_text(request(Method::GET, uri).map(|_| Vec::new())).await;
        let error = ask("/api/v1/pods").await.unwrap_err().to_string();
        assert!(error.contains("within 5s, as --request-timeout says"), "{error}");
        assert_eq!(ask("/api/v1/pods?watch=true&resourceVersion=1").await.unwrap(), "late");
    }
}
