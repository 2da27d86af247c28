//! The APIs: they take signed requests only, each nonce once, and apply what has the same client token once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use hitless_balancer::alibaba::{Account as Caller, Alibaba, Credentials, Product, Region, Retries};
use hitless_balancer::{Mark, PoolName};
use hitless_runtime::backoff::Backoff;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::group::{Group, Refusal};
use crate::interfaces::Interfaces;
use crate::kind::Kind;
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

pub(crate) struct Account {
    kind: Kind,
    pub(crate) group: Group,
    pub(crate) interfaces: Interfaces,
    /// For the next requests to the load balancer.
    pub(crate) troubles: VecDeque<Trouble>,
    /// For the next requests about network interfaces.
    pub(crate) troubles_of_interfaces: VecDeque<Trouble>,
    /// Actions and parameters of all requests to the load balancer, as they came.
    pub(crate) requests: Vec<(String, BTreeMap<String, String>)>,
    /// How many there were about network interfaces.
    pub(crate) asked_for_interfaces: usize,
    nonces: BTreeSet<String>,
    done: BTreeMap<String, Value>,
}

impl Account {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            group: Group::default(),
            interfaces: Interfaces::default(),
            troubles: VecDeque::new(),
            troubles_of_interfaces: VecDeque::new(),
            requests: Vec::new(),
            asked_for_interfaces: 0,
            nonces: BTreeSet::new(),
            done: BTreeMap::new(),
        }
    }
}

/// It ends when it is dropped.
pub(crate) struct Cloud {
    kind: Kind,
    address: SocketAddr,
    account: Arc<Mutex<Account>>,
    task: tokio::task::JoinHandle<()>,
}

impl Cloud {
    pub(crate) async fn start(kind: Kind) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let account = Arc::new(Mutex::new(Account::new(kind)));
        let app = Router::new().fallback(handle).with_state(Arc::clone(&account));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { kind, address, account, task }
    }

    pub(crate) fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap()
    }

    pub(crate) fn pool(&self) -> PoolName {
        PoolName::new(self.kind.group()).unwrap()
    }

    pub(crate) fn provider(&self) -> Alibaba {
        self.provider_as(Credentials::new(KEY_ID, SECRET), Duration::from_mins(1))
    }

    pub(crate) fn provider_as(&self, credentials: Credentials, limit: Duration) -> Alibaba {
        self.provider_for(self.kind.product(), credentials, limit)
    }

    pub(crate) fn provider_for(&self, product: Product, credentials: Credentials, limit: Duration) -> Alibaba {
        let pause = Backoff::new(Duration::from_millis(1), Duration::from_millis(2));
        let caller = Caller::new(Region::new("cn-hangzhou").unwrap(), credentials)
            .at(format!("http://{}", self.address))
            .with_retries(Retries { pause, attempts: 4, limit });
        Alibaba::new(product, caller, Mark::new("hitless").unwrap()).unwrap()
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

async fn handle(State(account): State<Arc<Mutex<Account>>>, uri: Uri, fields: HeaderMap, body: Bytes) -> Response {
    let (trouble, answer) = answer(&mut account.lock().unwrap(), &uri, &fields, &body);
    match trouble {
        Some(Trouble::Silent) => std::future::pending().await,
        Some(Trouble::Answered(text)) => text.into_response(),
        Some(Trouble::Refused(status, code) | Trouble::DoneAndRefused(status, code)) => refused((status, code)),
        None => match answer {
            Ok(answer) => answer.to_string().into_response(),
            Err(refusal) => refused(refusal),
        },
    }
}

type Answer = Result<Value, Refusal>;

fn answer(account: &mut Account, uri: &Uri, fields: &HeaderMap, body: &[u8]) -> (Option<Trouble>, Answer) {
    let query = pairs(uri.query().unwrap_or_default());
    if let Err(code) = check(fields, &query, body) {
        return (None, Err((400, code)));
    }
    let field = |name: &str| fields[name].to_str().unwrap().to_owned();
    if !account.nonces.insert(field("x-acs-signature-nonce")) {
        return (None, Err((400, "SignatureNonceUsed")));
    }
    let (action, version) = (field("x-acs-action"), field("x-acs-version"));
    let form = pairs(std::str::from_utf8(body).unwrap());
    assert!(
        if account.kind.has_form() { query.is_empty() } else { form.is_empty() },
        "parameters are where they belong"
    );
    let given = if account.kind.has_form() { form } else { query };
    if account.kind == Kind::Clb && version == "2014-05-26" {
        account.asked_for_interfaces += 1;
        let trouble = account.troubles_of_interfaces.pop_front();
        return (trouble, account.interfaces.answer(&action, &given));
    }
    assert_eq!(version, account.kind.version());
    account.requests.push((action.clone(), given.clone()));
    let trouble = account.troubles.pop_front();
    if matches!(trouble, Some(Trouble::Refused(..) | Trouble::Answered(_) | Trouble::Silent)) {
        return (trouble, Ok(Value::Null));
    }
    let token = given.get("ClientToken").cloned();
    if let Some(before) = token.as_ref().and_then(|token| account.done.get(token)) {
        return (trouble, Ok(before.clone()));
    }
    let answer = match account.kind {
        Kind::Nlb | Kind::Alb => account.group.answer(&action, &given),
        Kind::Clb => account.group.answer_classic(&action, &given),
    };
    if let (Some(token), Ok(answer)) = (token, &answer) {
        account.done.insert(token, answer.clone());
    }
    (trouble, answer)
}

fn refused((status, code): Refusal) -> Response {
    let (code, message) = code.split_once(": ").unwrap_or((code, "As documented."));
    let body = json!({
        "RequestId": "54B48E3D-DF70-471B-AA93-08E683A1B45", "HostId": "nlb", "Code": code, "Message": message,
    });
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

/// Parameters of a query or of a form.
fn pairs(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}
