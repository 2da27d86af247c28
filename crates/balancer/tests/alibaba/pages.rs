//! Lists with pages: those of NLB and ALB.

use hitless_balancer::{Provider, ProviderError};

use crate::cloud::{Cloud, Trouble};
use crate::group::Backend;
use crate::kind::Kind;
use crate::stories::{of_others, put};

const WITH_PAGES: [Kind; 2] = [Kind::Nlb, Kind::Alb];

#[tokio::test]
async fn a_list_with_several_pages_is_read_twice() {
    for kind in WITH_PAGES {
        let cloud = Cloud::start(kind).await;
        (1..=101).for_each(|number| put(&cloud, of_others(number)));
        assert_eq!(cloud.provider().read(&cloud.pool()).await.unwrap().len(), 101);
        assert_eq!(cloud.account().requests.len(), 4);
    }
}

#[tokio::test]
async fn a_list_that_changes_between_two_pages_is_void() {
    for kind in WITH_PAGES {
        let cloud = Cloud::start(kind).await;
        (1..=101).for_each(|number| put(&cloud, of_others(number)));
        // Shown on the last page, and gone when the pages are read again.
        put(&cloud, Backend { status: "Removing", ..of_others(250) });
        let read = cloud.provider().read(&cloud.pool()).await;
        assert!(matches!(read, Err(ProviderError::Changed { .. })), "{kind:?}: {read:?}");
    }
}

#[tokio::test]
async fn pages_without_end_are_given_up() {
    for kind in WITH_PAGES {
        let cloud = Cloud::start(kind).await;
        let page = r#"{"Servers":[],"NextToken":"again"}"#;
        cloud.account().troubles.extend(vec![Trouble::Answered(page.into()); 99]);
        let read = cloud.provider().read(&cloud.pool()).await;
        assert!(matches!(read, Err(ProviderError::Unexpected { .. })), "{kind:?}: {read:?}");
    }
}

/// ALB only: others put another server in its place.
#[tokio::test]
async fn a_server_that_is_replaced_is_changing() {
    let cloud = Cloud::start(Kind::Alb).await;
    put(&cloud, Backend { status: "Replacing", ..of_others(1) });
    let servers = cloud.provider().read(&cloud.pool()).await.unwrap();
    assert_eq!(servers[0].state, hitless_balancer::ServerState::Changing);
}
