//! Makes rules of anything that can be written into one.

use proptest::prelude::*;
use serde_json::{Value, json};

fn weird_limit() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(|count| json!(count)),
        ".*".prop_map(|text| json!(text)),
        "[0-9]{0,30}%".prop_map(|text| json!(text)),
        Just(Value::Null),
    ]
}

pub(crate) fn weird_selector() -> impl Strategy<Value = Value> {
    let requirement = (".{0,4}", "(In|NotIn|Exists|DoesNotExist|.{0,3})", prop::collection::vec(".{0,4}", 0..3))
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        prop::collection::vec(requirement, 0..3).prop_map(|expressions| json!({"matchExpressions": expressions})),
    ]
}

pub(crate) fn weird_rule() -> impl Strategy<Value = Value> {
    let stage = prop::option::of("(PreCheck|PostCheck|.{0,3})");
    (".{0,6}", stage, weird_limit(), weird_limit(), weird_selector(), weird_selector(), 0..8_u8).prop_map(
        |(name, stage, max, min, filter, requires, parts)| {
            let mut rule = json!({"name": name, "stage": stage, "filter": {"labelSelector": filter}});
            if parts & 1 != 0 {
                rule["availablePolicy"] = json!({"maxUnavailableValue": max, "minAvailableValue": min});
            }
            if parts & 2 != 0 {
                rule["labelCheck"] = json!({"requires": requires});
            }
            if parts & 4 != 0 {
                rule["availablePolicy"]["maxUnavailablePolicy"] = json!({"expFunc": {"coeff": name}});
            }
            rule
        },
    )
}
