//! HAProxy away, back, frozen, or not as it has to be.

use std::time::Duration;

use hitless_balancer::haproxy::{Endpoint, HaProxy, Keywords};
use hitless_balancer::{
    Evidence, Last, Mark, PoolName, Provider, ProviderError, Stand, Step, Unknown, Weight, observe,
};

use crate::lab::{OUT, lab, lab_with, proof, wanted};
use crate::pod::Pod;

fn address() -> std::net::SocketAddr {
    "10.0.0.1:80".parse().unwrap()
}

#[tokio::test]
async fn while_haproxy_is_away_nothing_is_done_and_nothing_is_known() {
    let Some(mut lab) = lab("") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    lab.process.kill();
    let error = lab.read().await.unwrap_err();
    assert!(matches!(error, ProviderError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("admin.sock"), "{error}");
    let round = lab.round(&[wanted(&pod, Stand::Gone(Last::Take))]).await;
    assert_eq!(round.plan.steps, []);
    assert!(matches!(proof(&pod, &round.observation), Evidence::Unknown(Unknown::Unreadable(_))));
}

#[tokio::test]
async fn a_restarted_haproxy_has_lost_our_servers_and_gets_them_again() {
    let Some(mut lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    let want = [wanted(&one, Stand::In), wanted(&two, Stand::In)];
    lab.settle(&want).await;
    let before = lab.read().await.unwrap();
    lab.process.kill();
    lab.process.run();
    assert_eq!(lab.read().await.unwrap(), []);
    assert_eq!(lab.evidence(&one).await, Evidence::NotRegistered);
    let settled = lab.settle(&want).await;
    assert_eq!(proof(&one, &settled.observation), Evidence::Serving);
    let mut after = lab.read().await.unwrap();
    after.sort_by_key(|server| before.iter().position(|other| other.name == server.name));
    assert_eq!(after, before);
    lab.requests().await;
    assert!(one.served() > 0 && two.served() > 0);
}

/// Why nobody may rely on this count alone.
#[tokio::test]
async fn a_reloaded_haproxy_has_lost_our_servers_and_does_not_count_the_sessions_of_the_old_process() {
    let Some(mut lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let open = lab.request("/slow").await.begun().await;
    lab.process.reload();
    assert_eq!(lab.read().await.unwrap(), []);
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    lab.settle(&[wanted(&one, OUT), wanted(&two, Stand::In)]).await;
    assert_eq!(lab.evidence(&one).await, Evidence::Out);
    one.release();
    assert_eq!(open.end().await, one.address.to_string());
}

#[tokio::test]
async fn a_frozen_haproxy_is_given_up_after_the_limit_and_proves_nothing() {
    let Some(lab) = lab("") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    let hasty = lab.haproxy.clone().with_limit(Duration::from_millis(50));
    lab.process.freeze();
    assert!(matches!(hasty.read(&lab.pool).await, Err(ProviderError::TimedOut { .. })));
    let frozen = observe(&hasty, &lab.pool).await;
    assert!(matches!(proof(&pod, &frozen), Evidence::Unknown(Unknown::Unreadable(_))));
    lab.process.thaw();
    assert_eq!(lab.evidence(&pod).await, Evidence::Serving);
}

#[tokio::test]
async fn a_socket_that_may_only_read_says_which_level_is_needed() {
    let Some(lab) = lab("") else { return };
    let user = lab.user_socket();
    assert_eq!(user.read(&lab.pool).await.unwrap(), []);
    let error = user.register(&lab.pool, address(), Weight::ONE).await.unwrap_err();
    assert!(matches!(error, ProviderError::Denied { .. }) && error.to_string().contains("level admin"), "{error}");
    let pod = Pod::start().await;
    let round = hitless_balancer::round(&user, &lab.pool, &[wanted(&pod, Stand::In)]).await;
    let register = Step::Register { address: pod.address, weight: Weight::ONE };
    assert_eq!(round.failed[0].step, register);
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_named() {
    let Some(lab) = lab("") else { return };
    let other = PoolName::new("other").unwrap();
    for error in [
        lab.haproxy.read(&other).await.unwrap_err(),
        lab.haproxy.register(&other, address(), Weight::ONE).await.unwrap_err(),
    ] {
        assert!(matches!(&error, ProviderError::NoPool(name) if *name == other), "{error}");
    }
}

#[tokio::test]
async fn a_backend_with_a_static_algorithm_says_what_to_change() {
    let Some(lab) = lab("  balance source") else { return };
    let error = lab.haproxy.register(&lab.pool, address(), Weight::ONE).await.unwrap_err();
    assert!(matches!(error, ProviderError::NotSupported { .. }) && error.to_string().contains("`balance`"), "{error}");
}

#[tokio::test]
async fn keywords_that_haproxy_does_not_take_are_refused_in_its_words() {
    let Some(lab) = lab_with("", "nonsense") else { return };
    let error = lab.haproxy.register(&lab.pool, address(), Weight::ONE).await.unwrap_err();
    assert!(matches!(&error, ProviderError::Refused { answer, .. } if answer.contains("nonsense")), "{error}");
}

#[tokio::test]
async fn each_command_may_be_repeated() {
    let Some(lab) = lab_with("", "check") else { return };
    let pod = Pod::start().await;
    lab.settle(&[wanted(&pod, Stand::In)]).await;
    let server = lab.read().await.unwrap().remove(0).name;
    let (haproxy, pool) = (&lab.haproxy, &lab.pool);
    let again = haproxy.register(pool, pod.address, Weight::ONE).await;
    assert!(matches!(again, Err(ProviderError::Exists { .. })));
    for _ in 0..2 {
        haproxy.ready(pool, &server, Weight::ONE).await.unwrap();
    }
    for _ in 0..2 {
        haproxy.drain(pool, &server).await.unwrap();
    }
    for _ in 0..2 {
        haproxy.close(pool, &server).await.unwrap();
    }
    haproxy.deregister(pool, &server).await.unwrap();
    assert!(matches!(haproxy.deregister(pool, &server).await, Err(ProviderError::NoServer { .. })));
}

#[tokio::test]
async fn the_runtime_api_is_reached_by_tcp_too() {
    let Some(lab) = lab("") else { return };
    // HAProxy can't be told to take any free port, so its socket is handed on.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::Tcp(listener.local_addr().unwrap().to_string());
    let socket = lab.process.path("admin.sock");
    let relay = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut haproxy = tokio::net::UnixStream::connect(&socket).await.unwrap();
            tokio::io::copy_bidirectional(&mut client, &mut haproxy).await.unwrap();
        }
    });
    let by_tcp = HaProxy::new(endpoint, Mark::new("hitless").unwrap(), Keywords::default());
    by_tcp.register(&lab.pool, address(), Weight::ONE).await.unwrap();
    assert_eq!(by_tcp.read(&lab.pool).await.unwrap(), lab.read().await.unwrap());
    relay.abort();
}
