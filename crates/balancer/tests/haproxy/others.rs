//! Servers of others, and what others do to ours.

use hitless_balancer::{Evidence, Owner, Reason, Stand, strays};

use crate::lab::{GONE, OUT, lab, proof, wanted};
use crate::pod::Pod;

#[tokio::test]
async fn what_others_have_configured_or_added_is_never_changed_or_deleted() {
    let (one, two, three) = (Pod::start().await, Pod::start().await, Pod::start().await);
    let Some(lab) = lab(&format!("  server static1 {}", one.address)) else { return };
    lab.type_in(&format!("add server shop/added {}; enable server shop/added", two.address)).await;
    let before = lab.read().await.unwrap();
    assert!(before.iter().all(|server| server.owner == Owner::Others));
    let desired = [wanted(&one, GONE), wanted(&two, OUT), wanted(&three, Stand::In)];
    let settled = lab.settle(&desired).await;
    assert!(settled.plan.kept.iter().all(|kept| kept.reason == Reason::NotOurs));
    assert_eq!(settled.plan.kept.len(), 2);
    assert_eq!(lab.read().await.unwrap()[..2], before);
}

#[tokio::test]
async fn a_pod_that_others_have_configured_is_not_registered_a_second_time() {
    let pod = Pod::start().await;
    let Some(lab) = lab(&format!("  server static1 {}", pod.address)) else { return };
    let settled = lab.settle(&[wanted(&pod, Stand::In)]).await;
    assert_eq!(proof(&pod, &settled.observation), Evidence::Serving);
    assert_eq!(lab.read().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_an_administrator_does_to_ours_is_put_back() {
    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    let want = [wanted(&one, Stand::In), wanted(&two, Stand::In)];
    lab.settle(&want).await;
    let before = lab.read().await.unwrap();
    let server = before[0].name.clone();
    for command in ["state drain", "state maint", "weight 0", "weight 7"] {
        lab.type_in(&format!("set server shop/{server} {command}")).await;
        assert_ne!(lab.read().await.unwrap(), before, "{command}");
        lab.settle(&want).await;
        assert_eq!(lab.read().await.unwrap(), before, "{command}");
    }
}

#[tokio::test]
async fn a_server_of_ours_that_was_given_another_address_is_replaced() {
    let Some(lab) = lab("") else { return };
    let (one, two, elsewhere) = (Pod::start().await, Pod::start().await, Pod::start().await);
    let want = [wanted(&one, Stand::In), wanted(&two, Stand::In)];
    lab.settle(&want).await;
    let server = lab.read().await.unwrap()[0].name.clone();
    let (ip, port) = (elsewhere.address.ip(), elsewhere.address.port());
    lab.type_in(&format!("set server shop/{server} addr {ip} port {port}")).await;
    assert_eq!(lab.evidence(&elsewhere).await, Evidence::Serving);
    let settled = lab.settle(&want).await;
    assert_eq!(proof(&elsewhere, &settled.observation), Evidence::NotRegistered);
    assert_eq!(proof(&one, &settled.observation), Evidence::Serving);
}

#[tokio::test]
async fn a_server_of_ours_that_was_deleted_is_registered_again() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    let want = [wanted(&pod, Stand::In)];
    lab.settle(&want).await;
    let server = lab.read().await.unwrap()[0].name.clone();
    lab.type_in(&format!("set server shop/{server} state maint; del server shop/{server}")).await;
    assert_eq!(lab.evidence(&pod).await, Evidence::NotRegistered);
    let settled = lab.settle(&want).await;
    assert_eq!(proof(&pod, &settled.observation), Evidence::Serving);
}

#[tokio::test]
async fn servers_of_ours_that_nobody_wants_stay_and_are_told() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    lab.settle(&[]).await;
    let servers = lab.read().await.unwrap();
    assert_eq!(strays(&[], &servers).len(), 1);
    assert_eq!(lab.evidence(&pod).await, Evidence::Serving);
}
