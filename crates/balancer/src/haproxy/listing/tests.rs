//! Answers that HAProxy 2.6.12 (Debian 12) gave, recorded as they are.

use super::*;

const STATES: &str = include_str!("../../../tests/data/servers-state.txt");
const COUNTS: &str = include_str!("../../../tests/data/stat.txt");

fn pool() -> PoolName {
    PoolName::new("raw").unwrap()
}

fn read(states_answer: &str, counts_answer: &str) -> Result<Vec<Server>, ProviderError> {
    read_all(&format!("{states_answer}{counts_answer}"))
}

fn read_all(answer: &str) -> Result<Vec<Server>, ProviderError> {
    servers(&pool(), &Mark::new("hitless").unwrap(), "show servers state raw;show stat raw 4 -1", answer)
}

fn why(result: Result<Vec<Server>, ProviderError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn each_kind_of_server_is_read_as_what_it_is() {
    let servers = read(STATES, COUNTS).unwrap();
    let seen: Vec<_> = servers.iter().map(|server| (server.name.as_str(), server.state, server.weight)).collect();
    let expected = [
        ("hitless_127.0.0.1_18102", ServerState::Draining, 10),
        ("hitless_127.0.0.1_18103", ServerState::Ready, 1),
        ("hitless_fd00::1_80", ServerState::Maintenance, 1),
        ("hitless_127.0.0.1_1", ServerState::Unhealthy, 1),
        ("hitless_127.0.0.1_18101", ServerState::Maintenance, 1),
        ("spare", ServerState::Standby, 1),
        ("named", ServerState::Maintenance, 1),
        ("light", ServerState::Draining, 0),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn sessions_are_counted_and_addresses_are_read() {
    let servers = read(STATES, COUNTS).unwrap();
    assert_eq!(servers.iter().map(|server| server.sessions.unwrap()).collect::<Vec<_>>(), [2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(servers[2].address, Some("[fd00::1]:80".parse().unwrap()));
    assert_eq!((servers[6].name.as_str(), servers[6].address), ("named", None));
}

#[test]
fn servers_are_ours_by_their_names_and_moved_by_their_addresses() {
    let servers = read(STATES, COUNTS).unwrap();
    let owners: Vec<_> = servers.iter().map(|server| server.owner).collect();
    let moved = Owner::UsMoved { from: "127.0.0.1:18101".parse().unwrap() };
    let (us, others) = (Owner::Us, Owner::Others);
    assert_eq!(owners, [us, us, us, us, moved, others, others, others]);
}

#[test]
fn sessions_that_wait_for_the_server_count() {
    let waiting = COUNTS.replace("raw,hitless_127.0.0.1_18103,0,0,0,", "raw,hitless_127.0.0.1_18103,3,3,1,");
    assert_ne!(waiting, COUNTS);
    assert_eq!(read(STATES, &waiting).unwrap()[1].sessions, Some(4));
}

#[test]
fn an_answer_that_breaks_off_anywhere_is_no_answer() {
    let whole = format!("{STATES}{COUNTS}");
    for (end, _) in whole.char_indices() {
        assert!(matches!(read_all(&whole[..end]), Err(ProviderError::Unexpected { .. })), "{end}");
    }
}

#[test]
fn a_server_in_only_one_of_both_answers_makes_the_reading_void() {
    let without = |text: &str, line: &str| -> String {
        text.split_inclusive('\n').filter(|other| !other.contains(line)).collect()
    };
    for (states, counts) in
        [(without(STATES, " light "), COUNTS.to_owned()), (STATES.to_owned(), without(COUNTS, ",light,"))]
    {
        assert!(matches!(read(&states, &counts), Err(ProviderError::Changed { .. })));
    }
}

#[test]
fn what_is_not_documented_is_not_guessed() {
    let state = "raw 2 hitless_127.0.0.1_18103 127.0.0.1 2 0";
    assert!(STATES.contains(state));
    let odd = STATES.replace(state, "raw 2 hitless_127.0.0.1_18103 127.0.0.1 9 0");
    assert!(why(read(&odd, COUNTS)).contains("srv_op_state 9"));
    assert!(why(read(&STATES.replacen('1', "2", 1), COUNTS)).contains("format 1"));
    assert!(why(read(&STATES.replace("srv_op_state", "srv_state"), COUNTS)).contains("no column srv_op_state"));
    assert!(why(read(&STATES.replace(" raw ", " other "), COUNTS)).contains("another backend"));
    assert!(why(read(STATES, &COUNTS.replace(",scur,", ",now,"))).contains("no column scur"));
}

#[test]
fn every_bit_of_the_administrative_state_is_maintenance_or_drain() {
    for bit in [0x01, 0x02, 0x04, 0x20, 0x40] {
        assert_eq!(state(2, bit, 1), Ok(ServerState::Maintenance));
        assert_eq!(state(0, bit | 0x08, 1), Ok(ServerState::Maintenance));
    }
    for bit in [0x08, 0x10] {
        assert_eq!(state(2, bit, 1), Ok(ServerState::Draining));
    }
    assert_eq!(state(1, 0, 1), Ok(ServerState::Ready));
    assert_eq!(state(3, 0, 1), Ok(ServerState::Unhealthy));
}

#[test]
fn a_backend_that_is_missing_is_named() {
    assert!(matches!(read("Can't find backend.\n\n", "No such proxy.\n\n"), Err(ProviderError::NoPool(_))));
}
