//! The API: takes signed requests only, each nonce once, and applies what has the same client token once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hitless_balancer::alibaba::{Api, Credentials, Nlb, Retries};
use hitless_balancer::{Mark, PoolName};
use hitless_runtime::backoff::Backoff;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::group::{GROUP, Group};
use crate::signature::{KEY_ID, SECRET, check};

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// It is refused, with status and code.
    Refused(u16, &'static str),
    /// It is done, and then refused all the same, with status and code.
    DoneAndRefused(u16, &'static str),
    /// It is answered with this.
    Answered(String),
    /// It gets no answer.
    Silent,
}

#[derive(Default)]
pub(crate) struct Account {
    pub(crate) group: Group,
    /// For the next requests.
    pub(crate) troubles: VecDeque<Trouble>,
    /// Actions and parameters of all requests, as they came.
    pub(crate) requests: Vec<(String, BTreeMap<String, String>)>,
    nonces: BTreeSet<String>,
    done: BTreeMap<String, Value>,
}

/// It ends when it is dropped.
pub(crate) struct Cloud {
    address: SocketAddr,
    account: Arc<Mutex<Account>>,
    task: tokio::task::JoinHandle<()>,
}

impl Cloud {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let account = Arc::new(Mutex::new(Account::default()));
        let app = Router::new().fallback(handle).with_state(Arc::clone(&account));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, account, task }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    pub(crate) fn nlb(&self) -> Nlb {
        self.nlb_as(Credentials::new(KEY_ID, SECRET), Duration::from_mins(1))
    }

    pub(crate) fn nlb_as(&self, credentials: Credentials, limit: Duration) -> Nlb {
        let pause = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let api = Api::at(&format!("http://{}", self.address), credentials).unwrap();
        Nlb::new(api.with_retries(Retries { pause, attempts: 4, limit }), Mark::new("hitless").unwrap())
    }

    pub(crate) fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn pool() -> PoolName {
    PoolName::new(GROUP).unwrap()
}

async fn handle(State(account): State<Arc<Mutex<Account>>>, fields: HeaderMap, body: Bytes) -> Response {
    let (trouble, answer) = answer(&mut account.lock().unwrap(), &fields, &body);
    match trouble {
        Some(Trouble::Silent) => std::future::pending().await,
        Some(Trouble::Answered(text)) => text.into_response(),
        Some(Trouble::Refused(status, code) | Trouble::DoneAndRefused(status, code)) => refused(status, code),
        None => match answer {
            Ok(answer) => answer.to_string().into_response(),
            Err((status, code)) => refused(status, code),
        },
    }
}

type Answer = Result<Value, (u16, &'static str)>;

fn answer(account: &mut Account, fields: &HeaderMap, body: &[u8]) -> (Option<Trouble>, Answer) {
    if let Err(code) = check(fields, body) {
        return (None, Err((400, code)));
    }
    let field = |name: &str| fields[name].to_str().unwrap().to_owned();
    if !account.nonces.insert(field("x-acs-signature-nonce")) {
        return (None, Err((400, "SignatureNonceUsed")));
    }
    assert_eq!(field("x-acs-version"), "2022-04-30");
    let (action, given) = (field("x-acs-action"), form(body));
    account.requests.push((action.clone(), given.clone()));
    let trouble = account.troubles.pop_front();
    if matches!(trouble, Some(Trouble::Refused(..) | Trouble::Answered(_) | Trouble::Silent)) {
        return (trouble, Ok(Value::Null));
    }
    let token = given.get("ClientToken").cloned();
    if let Some(before) = token.as_ref().and_then(|token| account.done.get(token)) {
        return (trouble, Ok(before.clone()));
    }
    let answer = account.group.answer(&action, &given);
    if let (Some(token), Ok(answer)) = (token, &answer) {
        account.done.insert(token, answer.clone());
    }
    (trouble, answer)
}

fn refused(status: u16, code: &str) -> Response {
    let body = json!({
        "RequestId": "54B48E3D-DF70-471B-AA93-08E683A1B45", "HostId": "nlb", "Code": code, "Message": "As documented.",
    });
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn form(body: &[u8]) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pairs = std::str::from_utf8(body).unwrap().split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
