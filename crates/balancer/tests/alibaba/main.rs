//! The provider for Alibaba Cloud's load balancers and the decider against an API of ours, which checks signatures as the documentation
//! describes them and answers with the documented answers and errors. No real account was used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the whole crate is a test; clippy looks for #[test] on each function"
)]

mod classic;
mod cloud;
mod group;
mod interfaces;
mod kind;
mod pages;
mod signature;
mod stories;
mod vgroup;

/// Each story is told of each product.
macro_rules! told_of_each_product {
    ($($story:ident),+ $(,)?) => {
        told_of_each_product!(@ nlb, Nlb, $($story),+);
        told_of_each_product!(@ alb, Alb, $($story),+);
        told_of_each_product!(@ clb, Clb, $($story),+);
    };
    (@ $module:ident, $kind:ident, $($story:ident),+) => {
        mod $module {
            use crate::{kind::Kind, stories};
            $(
                #[tokio::test]
                async fn $story() {
                    stories::$story(Kind::$kind).await;
                }
            )+
        }
    };
}

told_of_each_product!(
    a_pod_is_added_by_its_address_and_serves_when_the_api_says_so,
    a_pod_that_leaves_gets_weight_0_and_is_out_when_it_is_no_longer_listed,
    what_others_have_added_is_never_changed_or_removed,
    a_server_that_others_have_changed_is_put_back,
    the_last_server_stays,
    all_servers_are_read,
    throttled_requests_are_repeated_with_new_nonces,
    patience_ends,
    a_request_whose_answer_was_lost_is_done_once,
    weights_and_removals_whose_answers_were_lost_are_as_wanted,
    wrong_credentials_are_told_and_not_tried_again,
    a_temporary_key_sends_its_token_signed,
    each_documented_refusal_is_an_error_of_its_own,
    a_group_that_is_not_there_is_named,
    an_id_that_is_none_of_a_group_is_told_before_the_api_is_asked,
    a_server_that_is_gone_is_told,
    an_api_that_is_away_or_silent_leads_to_no_step_and_proves_nothing,
    an_answer_that_is_not_as_documented_is_not_guessed,
    what_does_not_fit_is_refused_before_the_api_is_asked,
);
