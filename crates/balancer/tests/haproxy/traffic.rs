//! Sessions that are open while a pod leaves.

use hitless_balancer::{Evidence, Provider, ProviderError, Stand};

use crate::lab::{GONE, OUT, lab, lab_with, wanted};
use crate::pod::Pod;

const fn draining(sessions: u32) -> Evidence {
    Evidence::Draining { sessions: Some(sessions) }
}

#[tokio::test]
async fn a_drained_server_gets_no_new_session_and_the_open_one_counts_until_it_ends() {
    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let open = lab.request("/slow").await.begun().await;
    let want = [wanted(&one, OUT), wanted(&two, Stand::In)];
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    lab.settle(&want).await;
    assert_eq!(lab.evidence(&one).await, draining(1));
    assert!(lab.requests().await.iter().all(|answer| *answer == two.address.to_string()));
    assert_eq!((one.served(), lab.evidence(&one).await), (1, draining(1)));
    one.release();
    assert_eq!(open.end().await, one.address.to_string());
    lab.until(&want, &one, Evidence::Out).await;
}

#[tokio::test]
async fn each_open_session_counts() {
    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let first = lab.request("/slow").await.begun().await;
    let second = lab.request("/slow").await.begun().await;
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    let want = [wanted(&one, GONE), wanted(&two, Stand::In)];
    lab.settle(&want).await;
    assert_eq!(lab.evidence(&one).await, draining(2));
    one.release();
    lab.until(&want, &one, draining(1)).await;
    one.release();
    assert_eq!(first.end().await, second.end().await);
    lab.until(&want, &one, Evidence::NotRegistered).await;
}

#[tokio::test]
async fn a_session_that_waits_for_the_server_counts() {
    // Without the table it would wait in the backend's queue, for any server.
    let stick = "  stick-table type string len 8 size 10\n  stick on path";
    let Some(lab) = lab_with(stick, "maxconn 1") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let first = lab.request("/slow").await.begun().await;
    let second = lab.request("/slow").await;
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    let leave = [wanted(&one, OUT), wanted(&two, Stand::In)];
    lab.until(&leave, &one, draining(2)).await;
    one.release();
    one.release();
    assert_eq!(first.end().await, one.address.to_string());
    assert_eq!(second.end().await, one.address.to_string());
    lab.until(&leave, &one, Evidence::Out).await;
}

#[tokio::test]
async fn a_client_that_keeps_its_connection_is_served_by_another_pod_without_an_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let Some(lab) = lab("") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let mut stream = tokio::net::UnixStream::connect(lab.process.path("web.sock")).await.unwrap();
    let mut ask = async || {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: shop\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with('\n') || answer.ends_with("\r\n") {
            answer.push(char::from(stream.read_u8().await.unwrap()));
        }
        answer.trim_end().lines().next_back().unwrap().to_owned()
    };
    assert_eq!(ask().await, one.address.to_string());
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    lab.until(&[wanted(&one, OUT), wanted(&two, Stand::In)], &one, Evidence::Out).await;
    assert_eq!(ask().await, two.address.to_string());
}

#[tokio::test]
async fn haproxy_itself_refuses_to_delete_a_server_that_has_a_session() {
    let Some(lab) = lab("") else { return };
    let one = Pod::start().await;
    lab.settle(&[wanted(&one, Stand::In)]).await;
    let server = lab.read().await.unwrap().remove(0).name;
    let busy = |result| matches!(result, Err(ProviderError::Busy { .. }));
    assert!(busy(lab.haproxy.deregister(&lab.pool, &server).await), "it is in service");
    let open = lab.request("/slow").await.begun().await;
    lab.haproxy.close(&lab.pool, &server).await.unwrap();
    assert!(busy(lab.haproxy.deregister(&lab.pool, &server).await), "it has a session");
    assert_eq!(lab.evidence(&one).await, draining(1), "closed, and not out");
    one.release();
    assert_eq!(open.end().await, one.address.to_string());
}

#[tokio::test]
async fn a_client_that_sticks_gets_in_while_a_server_drains_and_not_when_it_is_closed() {
    let Some(lab) = lab("  stick-table type string len 8 size 10\n  stick on path") else { return };
    let (one, two) = (Pod::start().await, Pod::start().await);
    lab.settle(&[wanted(&one, Stand::In)]).await;
    assert_eq!(lab.request("/").await.end().await, one.address.to_string());
    lab.settle(&[wanted(&one, Stand::In), wanted(&two, Stand::In)]).await;
    let server = lab.read().await.unwrap().into_iter().find(|server| server.address == Some(one.address)).unwrap().name;
    lab.haproxy.drain(&lab.pool, &server).await.unwrap();
    assert_eq!(lab.request("/").await.end().await, one.address.to_string(), "a drain lets it in");
    lab.haproxy.close(&lab.pool, &server).await.unwrap();
    assert_eq!(lab.request("/").await.end().await, two.address.to_string());
}
