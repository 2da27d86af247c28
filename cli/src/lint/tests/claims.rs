//! Data that goes with a CollaSet's claims.

use hitless_workloads::registry;

use super::*;
use crate::lint::claims::changed;

fn set(size: &str, policy: &str) -> String {
    format!(
        "
apiVersion: apps.kusionstack.io/v1alpha1
kind: CollaSet
metadata: {{name: web}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  scaleStrategy: {{persistentVolumeClaimRetentionPolicy: {policy}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: web:v1}}]}}
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}}}}}}}
"
    )
}

#[test]
fn a_policy_that_nobody_has_written_deletes_data() {
    for (policy, words) in [
        ("{}", "when replicas go down, and when it is deleted: "),
        ("{whenDeleted: Retain}", "when replicas go down: "),
        ("{whenScaled: Retain}", "when it is deleted: "),
    ] {
        let report = lint(&set("1Gi", policy));
        assert_eq!((report.errors, report.warnings), (0, 1), "{report:?}");
        let found = &report.findings[0];
        assert!(found.text.starts_with(&format!("claims of data and their data are deleted {words}")), "{found:?}");
        assert_eq!(found.line, 12);
    }
    for policy in ["{whenDeleted: Retain, whenScaled: Delete}", "{whenDeleted: Delete, whenScaled: Delete}"] {
        assert!(lint(&set("1Gi", policy)).findings.is_empty());
    }
}

#[test]
fn changed_claim_templates_are_compared_with_those_in_the_cluster() {
    let parsed = |text: &str| {
        let (mut objects, mut unreadable) = (Vec::new(), Vec::new());
        files::parse("set.yaml", text, "team", &mut objects, &mut unreadable);
        objects.remove(0)
    };
    let live = |size: &str| {
        let mut value = parsed(&set(size, "{}")).value;
        value["metadata"]["namespace"] = "team".into();
        registry::read(value).unwrap().unwrap()
    };
    let found = |policy: &str, live| changed(&parsed(&set("2Gi", policy)), std::iter::once(&live));
    assert!(found("{}", live("2Gi")).is_none());
    let said = found("{whenScaled: Delete}", live("1Gi")).unwrap().text;
    assert!(
        said.contains("(data): every pod is made anew with an empty volume") && said.contains("are deleted"),
        "{said}"
    );
    let said = found("{whenScaled: Retain}", live("1Gi")).unwrap().text;
    assert!(said.ends_with("stay (whenScaled: Retain)"), "{said}");
}
