//! `kubectl hitless restart --new-pods`: an annotation of the template that no operation in place brings. The native controller makes the
//! pods anew within the workload's own strategy.

use hitless_api::names::{UPDATE_IN_PLACE, annotations};
use hitless_workloads::{Object, OptIn, Write};
use jiff::Timestamp;

use crate::args::Target;
use crate::failure::Failure;
use crate::follow::follow;
use crate::select;
use crate::snapshot::Snapshot;
use crate::write::Decided;

/// What is written, and said then. `now` is what the annotation says.
pub(super) fn decided(snapshot: &Snapshot, target: &Target, now: Timestamp) -> Result<Decided<String>, Failure> {
    let object = select::named(snapshot, target)?;
    if let Some(why) = refusal(object) {
        return Err(Failure::Failed(format!("no new pods for {target}: {why}")));
    }
    let value = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let too_large = || Failure::Failed(format!("no new pods for {target}: its template is too large to look after"));
    let write = Write::restart(object, annotations::NEW_PODS, &value, &[]).ok_or_else(too_large)?;
    Decided::holding(write, snapshot, object, format!("{target} asks for new pods; {}", follow(object)))
}

/// Why its pods would not be made anew. Under a pause that is collected like any other change.
fn refusal(object: &Object) -> Option<String> {
    let on = object.id.arguments();
    match object.opt_in() {
        OptIn::No => None,
        OptIn::InPlaceOnly => Some(format!(
            "it is in-place-only. Allow them: kubectl annotate {on} {}={UPDATE_IN_PLACE} --overwrite; or delete its pods one after the other",
            annotations::UPDATE
        )),
        OptIn::InPlace if object.pause().is_some() || object.may_have_new_pods() => None,
        OptIn::InPlace => Some("its own update strategy is OnDelete; delete its pods one after the other".to_owned()),
    }
}
