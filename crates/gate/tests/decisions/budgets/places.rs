//! What metrics tell of budgets.

use hitless_gate::Places;
use serde_json::json;

use crate::scene::Namespace;

#[test]
fn the_places_of_a_budget_are_told_while_some_are_taken() {
    let of = |namespace: Namespace| namespace.gate().places().collect::<Vec<Places>>();
    let budget = || Namespace::of(4).budget(json!({"maxUnavailable": "50%"}));
    assert!(of(budget()).is_empty(), "nothing is taken");
    let places = |taken| Places { namespace: "default".to_owned(), name: "b".to_owned(), most: 2, taken };
    assert_eq!(of(budget().down(&["p0"])), [places(1)]);
    assert_eq!(of(budget().down(&["p0"]).reserved(&["p1"])), [places(2)]);
    assert_eq!(of(budget().down(&["p0", "p1", "p2"])), [places(3)], "nobody asks before a node goes down");
    assert_eq!(of(budget().down(&["p0"]).reserved(&["p0"])), [places(1)], "once");
    let others = Namespace::of(4).budget(json!({"maxConcurrent": 1})).down(&["p0"]);
    assert!(of(others).is_empty(), "it does not say how many may be unavailable");
    assert!(of(Namespace::of(2).max(1).down(&["p0"])).is_empty(), "a rule is no budget");
}
