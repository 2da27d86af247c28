//! Servers in the pod and their clients. One process may have no more than some 20,000 open files, so there are several of each.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use super::POD_V4;
use super::lab::Lab;

const EACH: u32 = 10_000;
const FIRST_PORT: u16 = 9000;
/// Between two looks of a server at all of its clients.
const PAUSE: Duration = Duration::from_millis(500);
/// What is answered, and what is not.
const REQUEST: u8 = b'?';
const SLOW: u8 = b'.';

/// A process that says `ok`, and more when it is told to.
struct Member {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Member {
    fn start(mut command: Command, arguments: [&str; 3]) -> Self {
        let command = command.arg(std::env::current_exe().unwrap()).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, command: &str) -> String {
        writeln!(self.child.stdin.as_ref().unwrap(), "{command}").unwrap();
        self.answer()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// The pod's processes, each with a port of its own.
pub(crate) struct Servers {
    members: Vec<Member>,
}

impl Servers {
    pub(crate) fn start(lab: &Lab, number: u32) -> Self {
        let start = |index: u16| {
            let (port, each) = ((FIRST_PORT + index).to_string(), EACH.to_string());
            Member::start(lab.command_in_pod(), ["serve", &port, &each])
        };
        let mut members: Vec<Member> = (0..u16::try_from(number.div_ceil(EACH)).unwrap()).map(start).collect();
        for member in &mut members {
            assert_eq!(member.answer(), "ok");
        }
        Self { members }
    }

    /// Of connections that they are to have.
    pub(crate) fn number(&self) -> u32 {
        EACH * u32::try_from(self.members.len()).unwrap()
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        (FIRST_PORT..).take(self.members.len()).collect()
    }
}

/// Clients outside of the pod, as many as its servers take; each has been answered once.
pub(crate) struct Clients {
    members: Vec<Member>,
}

impl Clients {
    pub(crate) fn connect(lab: &Lab, servers: &Servers) -> Self {
        let start =
            |port: u16| Member::start(lab.command_in_client(), ["connect", &port.to_string(), &EACH.to_string()]);
        let mut members: Vec<Member> = servers.ports().into_iter().map(start).collect();
        for member in &mut members {
            assert_eq!(member.answer(), "ok");
        }
        Self { members }
    }

    /// All but so many of one process go.
    pub(crate) fn leave(&mut self, number: u32) {
        self.members.truncate(1);
        assert_eq!(self.members[0].tell(&format!("leave {number}")), "ok");
    }

    /// One sends a request that is not answered.
    pub(crate) fn ask_without_answer(&mut self) {
        assert_eq!(self.members[0].tell("ask"), "ok");
    }

    /// How many have not seen the end of their connection.
    pub(crate) fn still_open(&mut self) -> u32 {
        self.members.iter_mut().map(|member| member.tell("count").parse::<u32>().unwrap()).sum()
    }
}

fn say(line: &str) {
    let mut output = io::stdout();
    writeln!(output, "{line}").unwrap();
    output.flush().unwrap();
}

/// Answers everybody, and closes when the client seems to have closed.
pub(crate) fn serve(port: u16, number: usize) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
    rustix::net::listen(&listener, 4096).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut streams: Vec<TcpStream> = Vec::with_capacity(number);
    let commands = commands();
    say("ok");
    // Until nobody can say anything any more.
    while commands.try_recv() != Err(TryRecvError::Disconnected) {
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).unwrap();
            streams.push(stream);
        }
        streams.retain_mut(|stream| {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(0) => false,
                Ok(_) => byte != [REQUEST] || stream.write_all(&byte).is_ok(),
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            }
        });
        thread::sleep(PAUSE);
    }
}

pub(crate) fn connect(port: u16, number: usize) {
    let mut streams: Vec<TcpStream> = Vec::with_capacity(number);
    // Not faster than the server accepts them.
    while streams.len() < number {
        let more = (number - streams.len()).min(1000);
        let open = |_| {
            let mut stream = TcpStream::connect((POD_V4, port)).unwrap();
            stream.write_all(&[REQUEST]).unwrap();
            stream
        };
        let mut opened: Vec<TcpStream> = (0..more).map(open).collect();
        for stream in &mut opened {
            stream.read_exact(&mut [0]).unwrap();
        }
        streams.append(&mut opened);
    }
    say("ok");
    for line in commands() {
        match line.split_once(' ') {
            Some(("leave", left)) => streams.truncate(left.parse().unwrap()),
            None if line == "ask" => streams[0].write_all(&[SLOW]).unwrap(),
            None if line == "count" => {
                let is_open = |mut stream: &TcpStream| {
                    stream.set_nonblocking(true).unwrap();
                    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
                };
                say(&streams.iter().filter(|stream| is_open(stream)).count().to_string());
                continue;
            }
            _ => panic!("command {line:?}"),
        }
        say("ok");
    }
}

/// Lines of standard input.
fn commands() -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || io::stdin().lines().map_while(Result::ok).all(|line| send.send(line).is_ok()));
    receive
}
