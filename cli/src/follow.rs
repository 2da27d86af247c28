//! What follows on a write to a workload's template, and how to watch it.

use hitless_workloads::{Object, OptIn, Pause};

/// As the workload was before the write, which changes neither its opt-in nor its pause.
pub(crate) fn follow(object: &Object) -> String {
    let on = object.id.arguments();
    match (object.opt_in(), object.pause()) {
        // Of hitless' own pause the native controller knows nothing.
        (OptIn::No, None | Some(Pause::Annotation)) => {
            format!(
                "it has not opted in, so its native controller rolls it; watch it with: kubectl rollout status {on}"
            )
        }
        (_, Some(pause)) => format!("nothing begins: {}", pause.advice(&object.id)),
        (OptIn::InPlace | OptIn::InPlaceOnly, None) => format!("watch it with: kubectl hitless wait {on}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{pod, rollout, with_annotation, with_object};
    use crate::snapshot::Snapshot;

    fn said(snapshot: &Snapshot) -> String {
        follow(&snapshot.cluster.objects[0])
    }

    #[test]
    fn who_rolls_it_is_who_is_asked_about_it() {
        let driven = rollout(&[pod("a", "web:v1")]);
        assert_eq!(said(&driven), "watch it with: kubectl hitless wait -n team deployment/web");
        let paused = with_annotation(driven.clone(), "hitless.dev/paused", "true");
        assert!(said(&paused).ends_with("kubectl hitless resume -n team deployment/web"), "{}", said(&paused));
        let native = with_object(driven, 0, |deployment| {
            deployment["spec"]["paused"] = false.into();
            deployment["metadata"]["annotations"] = serde_json::json!({});
        });
        let native_paused = with_annotation(native.clone(), "hitless.dev/paused", "true");
        for snapshot in [native.clone(), native_paused] {
            assert!(said(&snapshot).ends_with("kubectl rollout status -n team deployment/web"), "{}", said(&snapshot));
        }
        let owners = with_object(native, 0, |deployment| deployment["spec"]["paused"] = true.into());
        assert!(said(&owners).contains("kubectl rollout resume -n team deployment/web"), "{}", said(&owners));
    }
}
