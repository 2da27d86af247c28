//! Rules and budgets as users write them, and what the gate decides by them.

mod cluster;
mod limits;

use serde_json::{Value, json};

use crate::Target;
use cluster::Cluster;

pub(crate) const TARGET: Target = Target { name: "rules", run, seeds, words: &WORDS };

const WORDS: [&str; 64] = [
    "{\"kind\":\"PodTransitionRule\",\"spec\":{",
    "{\"kind\":\"TransitionBudget\",\"spec\":{",
    "{\"kind\":\"PodDisruptionBudget\",\"spec\":{",
    "\"selector\":{}",
    "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}",
    "\"matchExpressions\":[",
    "\"operator\":\"In\"",
    "\"Exists\"",
    "\"NotIn\"",
    "\"values\":[",
    "\"key\":\"tier\"",
    "\"rules\":[",
    "\"name\":\"r\"",
    "\"disabled\":true",
    "\"stage\":\"PreCheck\"",
    "\"PostCheck\"",
    "\"conditions\":[\"Ready\"]",
    "\"filter\":{\"labelSelector\":{",
    "\"availablePolicy\":{",
    "\"maxUnavailableValue\":",
    "\"minAvailableValue\":",
    "\"maxUnavailablePolicy\":{\"expFunc\":{",
    "\"minAvailablePolicy\":",
    "\"coeff\":\"1\"",
    "\"pow\":\"0.5\"",
    "\"labelCheck\":{\"requires\":{",
    "\"webhook\":{\"clientConfig\":{",
    "\"url\":\"https://a/\"",
    "\"service\":{",
    "\"namespace\":\"shop\"",
    "\"failurePolicy\":\"Ignore\"",
    "\"poll\":{",
    "\"scope\":\"Cluster\"",
    "\"paused\":true",
    "\"maxUnavailable\":",
    "\"minAvailable\":",
    "\"maxUnavailableNodes\":",
    "\"topology\":{\"key\":\"zone\"",
    "\"maxUnavailableDomains\":1",
    "\"perNodeMinAvailable\":1",
    "\"maxConcurrent\":1",
    "\"windows\":[{",
    "\"days\":[\"Mon\"]",
    "\"start\":\"22:00\"",
    "\"end\":\"04:00\"",
    "\"timeZone\":\"Europe/Berlin\"",
    "\"blackouts\":[{",
    "\"start\":\"1970-01-01T00:00:00.000000Z\"",
    "\"end\":\"9999-12-31T00:00:00Z\"",
    "\"reason\":\"r\"",
    "\"soakSeconds\":60",
    "\"maxFailures\":1",
    "\"50%\"",
    "\"100%\"",
    "\"0%\"",
    "2147483647",
    "-1",
    "null",
    "true",
    "[",
    "]",
    "{",
    "}",
    ",",
];

/// Bytes before the JSON; see [`Cluster::of`].
const HEAD: usize = 6;

fn seeds() -> Vec<Vec<u8>> {
    let web = json!({"matchLabels": {"app": "web"}});
    let rule = |rules: Value| json!({"kind": "PodTransitionRule", "spec": {"selector": web, "rules": rules}});
    let budget = |spec: Value| json!({"kind": "TransitionBudget", "spec": spec});
    let disruption = |spec: Value| json!({"kind": "PodDisruptionBudget", "spec": spec});
    let webhook = json!({"clientConfig": {"url": "https://approver/", "poll": {"url": "https://approver/poll"}}, "failurePolicy": "Ignore"});
    let objects = [
        json!([
            rule(json!([{"name": "a", "availablePolicy": {"maxUnavailableValue": "50%", "minAvailableValue": 1}}])),
            budget(json!({"selector": {}, "maxUnavailable": "25%", "maxConcurrent": 2})),
            disruption(json!({"selector": web, "minAvailable": "50%"})),
        ]),
        json!([rule(json!([
            {"name": "f", "availablePolicy": {"maxUnavailablePolicy": {"expFunc": {"coeff": "1", "pow": "0.5"}}}},
            {"name": "l", "labelCheck": {"requires": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["0", "1"]}]}}},
            {"name": "w", "webhook": webhook, "filter": {"labelSelector": {"matchLabels": {"tier": "1"}}}},
        ]))]),
        json!([
            budget(
                json!({"selector": web, "windows": [{"days": ["Fri"], "start": "22:00", "end": "04:00", "timeZone": "Europe/Berlin"}],
                "blackouts": [{"start": "2026-12-24T00:00:00.000000Z", "end": "9999-12-31T00:00:00Z", "reason": "holidays"}]})
            ),
            budget(
                json!({"selector": {}, "scope": "Cluster", "maxUnavailableNodes": 1, "perNodeMinAvailable": 1, "soakSeconds": 60,
                "topology": {"key": "zone", "maxUnavailableDomains": 1}, "maxFailures": 2})
            ),
        ]),
        json!([
            budget(json!({"selector": web, "minAvailable": 2})),
            disruption(json!({"selector": {}, "maxUnavailable": 1}))
        ]),
        json!([budget(json!({"selector": web, "paused": true})), rule(json!([{"name": "o", "webhook": webhook}]))]),
        json!([rule(json!([{"name": "u", "availablePolicy": {"maxUnavailableValue": 2_147_483_648_u64}}]))]),
    ];
    let heads: [[u8; HEAD]; 2] = [[8, 0b1111_1111, 0, 0, 0, 7], [6, 0b0011_1011, 0b0000_0010, 0b0101, 0, 3]];
    objects.iter().flat_map(|all| heads.map(|head| [&head[..], all.to_string().as_bytes()].concat())).collect()
}

fn run(data: &[u8]) {
    let Some((head, text)) = data.split_first_chunk::<HEAD>() else { return };
    let objects = match serde_json::from_slice(text) {
        Ok(Value::Array(objects)) => objects,
        Ok(object) => vec![object],
        Err(_) => return,
    };
    let cluster = Cluster::of(*head, objects);
    let verdicts = cluster.decide();
    assert_eq!(verdicts.len(), cluster.pods.len(), "one verdict for each pod");
    for verdict in &verdicts {
        assert!(verdict.allowed || verdict.denied().count() > 0, "denied without a reason: {verdict:?}");
        for rule in &verdict.rules {
            assert!(!rule.reason().is_empty() && serde_json::to_string(rule).is_ok());
        }
    }
    assert_eq!(cluster.turned().decide(), verdicts, "the order of pods and rules does not matter");
    limits::check(&cluster, &verdicts);
    for fault in cluster.faults() {
        assert!(!fault.is_empty());
    }
}
