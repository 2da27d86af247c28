//! What Alibaba Cloud's APIs answer: pages of server groups (NLB, ALB), vServer groups with their health (CLB), and refusals.

use hitless_balancer::alibaba::fuzz::{refusal, server_group, vserver_group};
use hitless_balancer::{ServerName, ServerState};

use crate::Target;
use crate::parts::{BETWEEN, parts};
use crate::pool::{check, mark, pool};

pub(crate) const TARGET: Target = Target { name: "alibaba", run, seeds, words: &WORDS };

const WORDS: [&str; 36] = [
    BETWEEN,
    "\"Servers\":[",
    "\"ServerId\":",
    "\"ServerIp\":",
    "\"Port\":",
    "\"Weight\":",
    "\"Status\":",
    "\"Available\"",
    "\"Adding\"",
    "\"Configuring\"",
    "\"Removing\"",
    "\"Replacing\"",
    "\"Description\":",
    "\"NextToken\":",
    "\"LoadBalancerId\":",
    "\"BackendServers\":",
    "\"BackendServer\":[",
    "\"ServerHealthStatus\":",
    "\"normal\"",
    "\"abnormal\"",
    "\"unavailable\"",
    "\"EniHost\":",
    "\"Code\":",
    "\"Message\":",
    "\"10.0.0.1\"",
    "\"hitless_10.0.0.1_80\"",
    "\"hitless_10.0.0.2_80\"",
    "\"eni-1\"",
    "80",
    "\"80\"",
    "null",
    "Throttling",
    "Forbidden.RAM",
    "ResourceNotFound.BackendServer",
    "IncorrectStatus",
    "InvalidParameter",
];

fn seeds() -> Vec<Vec<u8>> {
    let server = |ip: &str, weight: u8, status: &str| {
        format!(
            r#"{{"ServerId":"{ip}","ServerIp":"{ip}","Port":80,"Weight":{weight},"Status":"{status}","Description":"hitless_{ip}_80","ServerType":"Ip"}}"#
        )
    };
    let pages = [
        format!(
            r#"{{"Servers":[{},{}],"NextToken":"n"}}"#,
            server("10.0.0.1", 1, "Available"),
            server("10.0.0.2", 0, "Available")
        ),
        format!(r#"{{"Servers":[{}],"TotalCount":3}}"#, server("10.0.0.3", 10, "Removing")),
    ];
    let others = r#"{"Servers":[{"ServerId":"i-1","Port":80,"Weight":1,"Status":"Adding"}]}"#;
    let group = r#"{"LoadBalancerId":"lb-1","BackendServers":{"BackendServer":[{"ServerId":"eni-1","ServerIp":"10.0.0.1","Port":"80","Weight":1,"Description":"hitless_10.0.0.1_80"},{"ServerId":"i-2","Port":80,"Weight":"0"}]}}"#;
    let health = r#"{"BackendServers":{"BackendServer":[{"ServerId":"eni-1","Port":80,"EniHost":"10.0.0.1","ServerHealthStatus":"abnormal"}]}}"#;
    let refusal =
        |code: &str| format!(r#"r{{"Code":"{code}","Message":"The specified resource already exists"}}"#).into_bytes();
    vec![
        format!("p{}", pages.join(BETWEEN)).into_bytes(),
        format!("p{others}").into_bytes(),
        format!("v{group}{BETWEEN}{health}").into_bytes(),
        format!("v{group}").into_bytes(),
        refusal("Throttling.User"),
        refusal("ResourceNotFound.ServerGroup"),
        refusal("InvalidParameter"),
        refusal("VServerGroupProcessing"),
    ]
}

fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let answers = parts(rest);
    match kind {
        b'p' => {
            if let Ok(servers) = server_group(&pool(), &mark(), &answers) {
                check(&servers);
            }
        }
        b'v' => {
            let group = answers.first().copied().unwrap_or_default();
            let Ok(before) = vserver_group(&pool(), &mark(), group, None) else { return };
            check(&before);
            let Ok(after) = vserver_group(&pool(), &mark(), group, answers.get(1).copied()) else { return };
            // Health checks make servers unhealthy that were ready, and change nothing else.
            for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
                assert_eq!((before.state, after.state), (ServerState::Ready, ServerState::Unhealthy));
            }
            check(&after);
        }
        _ => {
            let server = ServerName::new("hitless_10.0.0.1_80").expect("a name");
            for (error, _) in refusal(&pool(), &server, 400 + u16::from(*kind), rest) {
                // What is shown of the API's words has an end.
                assert!(error.to_string().chars().count() < 1500, "{error}");
            }
        }
    }
}
