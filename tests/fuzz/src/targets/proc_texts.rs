//! Texts of `/proc`: control groups, counters, tables of sockets, users, mounts, `stat`. A process can choose much of what stands there.

use hitless_kernel::fuzz::{counters, ids, is_of, mounted_at, pods_of, reached_by, start_ticks, unescape};

use crate::Target;
use crate::parts::{BETWEEN, joined, texts};

pub(crate) const TARGET: Target = Target { name: "proc_texts", run, seeds, words: &WORDS };

const WORDS: [&str; 29] = [
    BETWEEN,
    UID,
    UNDERSCORED,
    "pod",
    "/kubepods/pod",
    ".slice",
    "-pod",
    "0::/",
    "1:name=systemd:/",
    CONTAINER,
    "cri-containerd-",
    ".scope",
    "conmon",
    "Tcp: ",
    "Udp: ",
    "CurrEstab",
    "PassiveOpens",
    "InDatagrams",
    "18446744073709551615",
    "Udp6InDatagrams ",
    "Uid:\t",
    "Gid:\t",
    "Groups:\t",
    " 0A ",
    "00000000:0000",
    "0100007F:2382",
    "\\040",
    "\\134",
    "/pods/",
];

const UID: &str = "8f1c2d3e-0a1b-4c5d-9e8f-001122334455";
const UNDERSCORED: &str = "8f1c2d3e_0a1b_4c5d_9e8f_001122334455";
const CONTAINER: &str = "f00dfeed0123456789abcdef";
/// Of a listener in the seed.
const INODE: u64 = 11;

const SNMP: &str = "Tcp: ActiveOpens PassiveOpens CurrEstab\nTcp: 52 41 7\nUdp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 11 2 1 40\n";
const SNMP6: &str = "Udp6InDatagrams \t20\nUdp6NoPorts \t3\nUdp6InErrors \t0\n";
const STATUS: &str = "Name:\tweb\nUid:\t0\t1000\t0\t0\nGid:\t0\t1000\t0\t0\nGroups:\t1000 2000 \n";
const IDS: &str = "         0          0 4294967295\n";
const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0000000000000000 100 0 0 10 0\n";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n  100: 00000000:1FBD 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 21 2 0000000000000000 0\n";
const UNIX: &str = "Num       RefCount Protocol Flags    Type St Inode Path\n0000000000000000: 00000002 00000000 00010000 0001 01    31 /run/app.sock\n";
const NETLINK: &str = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n0000000000000000 0   0          00000000 0        0        0     2        0        41\n";
const MOUNTS: &str = "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 21 8:1 /data/kubelet /var/lib/kube\\040let rw shared:1 - ext4 /dev/sda1 rw\n";

/// In the order in which `run` reads them.
fn seeds() -> Vec<Vec<u8>> {
    let stat = format!("7 (a b) c) S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0 98765 222 3{}", " 0".repeat(28));
    let rest = [SNMP, SNMP6, STATUS, IDS, IDS, TCP, UDP, UNIX, NETLINK, MOUNTS, &stat];
    let groups = [
        format!("0::/kubepods.slice/kubepods-pod{UNDERSCORED}.slice/cri-containerd-{CONTAINER}.scope\n"),
        format!("12:pids:/kubepods/pod{UID}/{CONTAINER}\n1:name=systemd:/kubepods/pod{UID}/{CONTAINER}/worker\n0::/\n"),
        "0::/system.slice/kubelet.service\n".to_owned(),
    ];
    let all = groups.iter().map(|groups| joined(&[&[groups.as_str()], &rest[..]].concat()));
    all.chain(groups.iter().map(|groups| joined(&[groups]))).collect()
}

fn run(data: &[u8]) {
    let texts = texts(data);
    let text = |number: usize| texts.get(number).map_or("", String::as_str);
    control_groups(text(0));
    let _ = counters(text(1), texts.get(2).map(String::as_str));
    if let Some((told, read)) = ids(text(3), text(4), text(5)) {
        assert_eq!(Some(told), read, "what a helper is told is what it reads");
    }
    sockets(&[("tcp", text(6)), ("udp", text(7)), ("unix", text(8)), ("netlink", text(9))]);
    mounts(text(10));
    started(text(11));
}

/// A process has started when the kernel says so, whatever it calls itself.
fn started(name: &str) {
    let fields = "S 1 7 7 0 -1 4194560 0 0 0 0 1 2 0 0 20 0 1 0";
    assert_eq!(start_ticks(&format!("7 ({name}) {fields} 98765 222 3")), Some(98_765));
    let _ = start_ticks(name);
}

/// A process is in the pods that its groups name, and a container's process is its pod's.
fn control_groups(groups: &str) {
    let pods = pods_of(groups);
    for uid in &pods {
        assert!((32..=36).contains(&uid.len()) && !uid.contains('_'), "{uid:?}");
    }
    let (is_pod, is_container) = is_of(groups, UID, CONTAINER, Vec::new()).expect("a uid and an id");
    // What is below its group, a container may have named as it likes.
    assert!(!is_pod || pods.first().is_some_and(|uid| uid == UID), "in the pod, and in another one: {pods:?}");
    assert!(is_pod || !is_container, "the container's, and not the pod's");
    // A pod that the whole node is in changes nothing for whom it does not name.
    let around = vec!["11111111-1111-1111-1111-111111111111".to_owned()];
    assert!(!is_pod || is_of(groups, UID, CONTAINER, around).is_ok_and(|(is_pod, _)| is_pod));
}

/// Others reach a process by a socket that listens, whatever other tables say of it.
fn sockets(tables: &[(&str, &str)]) {
    let table = |only: Option<&'static str>| {
        move |wanted: &str| {
            let wanted = tables.iter().find(|(name, _)| *name == wanted && only.is_none_or(|only| only == *name));
            wanted.map_or_else(String::new, |(_, text)| (*text).to_owned())
        }
    };
    let (alone, together) = (reached_by(table(Some("tcp")), INODE), reached_by(table(None), INODE));
    if let Some((Some(port), _)) = alone {
        assert_eq!(together, Some((Some(port), true)), "it listens, and another table hides that");
    }
}

/// A path that is escaped as the kernel does is read as it was; a directory is found below what is mounted.
fn mounts(mountinfo: &str) {
    let escaped: String = mountinfo.chars().map(escape).collect();
    assert_eq!(unescape(&escaped), mountinfo);
    if let Some(path) = mounted_at(mountinfo, "8:1", "/data/kubelet/pods/1") {
        assert!(path.ends_with("/1"), "{path:?}");
    }
}

fn escape(letter: char) -> String {
    match letter {
        ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", u32::from(letter)),
        other => other.to_string(),
    }
}
