//! Through which proxy the API server is reached, and how.

use std::net::IpAddr;

use hitless_runtime::client::{ClientError, provide_crypto};
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, Service, ServiceBuilder};

use super::ConnectError;

/// The proxy for this server, by kubectl's rules (client-go `clientcmd`, Go `net/http.ProxyFromEnvironment` and
/// `golang.org/x/net/http/httpproxy`): what the kubeconfig says counts alone; else `HTTPS_PROXY` for https and `HTTP_PROXY` for http,
/// unless `NO_PROXY` names the server, and never for the machine itself.
///
/// # Errors
/// If a proxy is named that can't be one.
pub(super) fn of(
    server: &Uri,
    written: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Option<Intercept>, ConnectError> {
    if let Some(url) = written {
        return through(server, url, "").map(Some).ok_or_else(|| ConnectError::Proxy(without_password(url)));
    }
    let first = |names: [&str; 2]| names.iter().find_map(|name| environment(name).filter(|value| !value.is_empty()));
    let names = if server.scheme_str() == Some("https") {
        ["HTTPS_PROXY", "https_proxy"]
    } else {
        ["HTTP_PROXY", "http_proxy"]
    };
    let Some(url) = first(names).filter(|_| !is_here(server)) else { return Ok(None) };
    if through(server, &url, "").is_none() {
        return Err(ConnectError::Proxy(without_password(&url)));
    }
    let excluded = first(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    Ok(through(server, &url, &excluded_names(server, &excluded)))
}

fn through(server: &Uri, url: &str, excluded: &str) -> Option<Intercept> {
    let found = Matcher::builder().all(url).no(excluded).build().intercept(server)?;
    matches!(found.uri().scheme_str(), Some("http" | "https" | "socks5" | "socks5h")).then_some(found)
}

/// `NO_PROXY` as the matcher reads it, which knows no ports, and takes `.example.com` for `example.com`, too.
fn excluded_names(server: &Uri, list: &str) -> String {
    let host = host(server).to_ascii_lowercase();
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("https") { 443 } else { 80 });
    let meant = list.split(',').map(str::trim).filter_map(|entry| {
        // Of the address [::1] or ::1 the last colon begins no port.
        let is_address = entry.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || entry.contains('/');
        let (name, of_port) = match entry.rsplit_once(':') {
            Some((name, of_port)) if !is_address => (name, Some(of_port)),
            Some(_) | None => (entry, None),
        };
        if of_port.is_some_and(|of_port| of_port.parse() != Ok(port)) {
            return None;
        }
        let name = name.trim_matches(['[', ']']);
        let name = if name.starts_with("*.") { &name[1..] } else { name };
        let is_parent = name.strip_prefix('.').is_some_and(|parent| parent.eq_ignore_ascii_case(&host));
        (!is_parent).then_some(name)
    });
    meant.collect::<Vec<_>>().join(",")
}

fn host(server: &Uri) -> &str {
    server.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// Go never asks a proxy for these.
fn is_here(server: &Uri) -> bool {
    let host = host(server);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => url.to_owned(),
    }
}

/// A client of the server, through the proxy.
pub(super) fn client(config: &Config, proxy: &Intercept) -> Result<Client, ClientError> {
    provide_crypto();
    let mut direct = HttpConnector::new();
    direct.enforce_http(false);
    direct.set_connect_timeout(config.connect_timeout);
    let made = match proxy.uri().scheme_str() {
        Some("socks5" | "socks5h") => {
            let socks = SocksV5::new(proxy.uri().clone(), direct);
            over(
                config,
                match proxy.raw_auth() {
                    Some((user, password)) => socks.with_auth(user.to_owned(), password.to_owned()),
                    None => socks,
                },
            )
        }
        Some("https") => {
            config.rustls_https_connector_with_connector(direct).and_then(|direct| over(config, tunnel(proxy, direct)))
        }
        Some(_) | None => over(config, tunnel(proxy, direct)),
    };
    made.map_err(|error| ClientError::Setup(Box::new(error)))
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

/// What kube builds of a configuration, over this connection.
fn over<C>(config: &Config, connector: C) -> Result<Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let https = config.rustls_https_connector_with_connector(connector)?;
    let sender: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(https);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender);
    Ok(Client::new(service, config.default_namespace.clone()))
}
