//! What rounds look at, listed once: one request a row of the table, and one more for what counts of the system namespace.

use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use hitless_api::names;
use hitless_store::inputs::rows::NodeTransitions;
use hitless_store::inputs::{Input, Reach, Turn, Visit, each};
use kube::Client;

use super::Scope;
use super::lists::{list, list_row, optional};
use crate::failure::Failure;
use crate::snapshot::Snapshot;

/// Puts into the snapshot what was read of a row, or notes why it was not.
pub(super) type Read = Box<dyn FnOnce(&mut Snapshot) -> Result<(), Failure>>;

/// Reads of all rows whose turn it is.
pub(super) async fn read_all(client: &Client, scope: &Scope, turn: Turn) -> Vec<Read> {
    let mut reads = Reads { client, scope, turn, all: Vec::new() };
    each(&mut reads);
    join_all(reads.all).await
}

struct Reads<'a> {
    client: &'a Client,
    scope: &'a Scope,
    turn: Turn,
    all: Vec<LocalBoxFuture<'a, Read>>,
}

impl Visit for Reads<'_> {
    fn visit<R: Input>(&mut self) {
        if R::REACH != Reach::Apart && R::TURN == self.turn {
            self.all.push(read::<R>(self.client, self.scope).boxed_local());
        }
    }
}

async fn read<R: Input>(client: &Client, scope: &Scope) -> Read {
    let (own, besides) = futures::join!(list_row::<R>(client, scope), async {
        let system = R::SYSTEM.filter(|_| scope.besides_system().is_some())?;
        let api = R::api(client, Some(names::system_namespace()));
        Some((list(system.what, &api, system.select.list(), R::view()).await, system))
    });
    Box::new(move |snapshot: &mut Snapshot| {
        let own = match own {
            Err(Failure::NotServed { .. }) if R::PART == NodeTransitions::PART => Err(Failure::NotInstalled),
            other => other,
        };
        let mut views = optional(R::PART, own, &mut snapshot.unread)?.unwrap_or_default();
        if let Some((besides, system)) = besides {
            let besides = optional(Some(system.part), besides, &mut snapshot.unread)?;
            views.extend(besides.into_iter().flatten().filter(|view| (system.counts)(view)));
        }
        R::put(&mut snapshot.cluster, views);
        Ok(())
    })
}
