//! Rounds carry pods in and out.

use std::time::Instant;

use hitless_balancer::{Evidence, Last, Reason, Stand, Step, Weight, evidence};

use crate::lab::{GONE, OUT, lab, lab_with, patiently, proof, wanted};
use crate::pod::Pod;

#[tokio::test]
async fn a_registered_server_gets_requests_only_after_ready() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    let want = [wanted(&pod, Stand::In)];
    let registered = lab.round(&want).await;
    assert_eq!(registered.plan.steps, [Step::Register { address: pod.address, weight: Weight::ONE }]);
    assert_eq!(proof(&pod, &registered.observation), Evidence::Out);
    lab.requests().await;
    assert_eq!(pod.served(), 0);
    let ready = lab.settle(&want).await;
    assert_eq!(proof(&pod, &ready.observation), Evidence::Serving);
    assert!(lab.requests().await.iter().all(|answer| *answer == pod.address.to_string()));
}

#[tokio::test]
async fn a_pod_goes_out_and_comes_back_and_another_one_serves_meanwhile() {
    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    let out = lab.settle(&[wanted(&one, OUT), wanted(&two, Stand::In)]).await;
    assert_eq!(proof(&one, &out.observation), Evidence::Out);
    let before = one.served();
    assert!(lab.requests().await.iter().all(|answer| *answer == two.address.to_string()));
    assert_eq!(one.served(), before);
    let back = lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    assert_eq!(proof(&one, &back.observation), Evidence::Serving);
    lab.requests().await;
    assert!(one.served() > before);
}

#[tokio::test]
async fn a_pod_that_goes_is_deleted() {
    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    let gone = lab.settle(&[wanted(&one, GONE), wanted(&two, Stand::In)]).await;
    assert_eq!(proof(&one, &gone.observation), Evidence::NotRegistered);
    assert_eq!(lab.read().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_last_pod_stays_until_its_loss_is_accepted() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    let kept = lab.settle(&[wanted(&pod, OUT)]).await;
    assert_eq!(kept.plan.kept[0].reason, Reason::LastServing);
    assert!(lab.requests().await.iter().all(|answer| *answer == pod.address.to_string()));
    let taken = lab.settle(&[wanted(&pod, Stand::Out(Last::Take))]).await;
    assert_eq!(proof(&pod, &taken.observation), Evidence::Out);
}

#[tokio::test]
async fn a_weight_is_changed_in_service() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    let mut want = wanted(&pod, Stand::In);
    want.weight = Weight::new(256).unwrap();
    let settled = lab.settle(&[want]).await;
    assert_eq!(proof(&pod, &settled.observation), Evidence::Serving);
    assert_eq!(lab.read().await.unwrap()[0].weight, 256);
}

#[tokio::test]
async fn a_server_whose_health_check_fails_does_not_count_as_serving() {
    let Some(lab) = lab_with("", "check inter 20ms fall 1 rise 1") else { return };
    let (sound, broken) = (Pod::start().await, Pod::start().await);
    let want = [wanted(&sound, Stand::In), wanted(&broken, Stand::In)];
    lab.settle(&want).await;
    drop(broken);
    // Its address is free now, and nobody listens there.
    let unhealthy = async || {
        let observation = lab.observe().await;
        evidence(want[1].address, &observation, Instant::now()) == Evidence::Unhealthy
    };
    patiently(async { while !unhealthy().await {} }).await;
    let mut leave = want.clone();
    leave[0].stand = OUT;
    let kept = lab.settle(&leave).await;
    assert_eq!(kept.plan.kept[0].reason, Reason::LastServing);
}

#[tokio::test]
async fn servers_with_ipv6_addresses_are_read_as_they_were_registered() {
    let Some(lab) = lab("") else { return };
    let address = "[fd00::1]:80".parse().unwrap();
    let pod = Pod::start().await;
    let mut want = wanted(&pod, Stand::In);
    want.address = address;
    lab.settle(&[want]).await;
    assert_eq!(lab.read().await.unwrap()[0].address, Some(address));
}

#[tokio::test]
async fn a_large_pool_is_read_as_a_whole() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    let want: Vec<_> = (1..=200_u8)
        .map(|number| {
            let mut want = wanted(&pod, Stand::In);
            want.address = ([10, 0, 0, number], 80).into();
            want
        })
        .collect();
    lab.settle(&want).await;
    assert_eq!(lab.read().await.unwrap().len(), 200);
}
