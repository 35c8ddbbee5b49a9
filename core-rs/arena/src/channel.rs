//! A Unix socket between two processes of one user: messages, and descriptors with them.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    recvmsg, sendmsg,
};

use crate::error::ArenaError;

/// Descriptors that one message carries at most.
pub const MAX_DESCRIPTORS: usize = 16;

/// Bytes that one message has at most.
pub const MAX_PAYLOAD: usize = 8 << 10;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// How long it may take until one of those was accepted.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where a [`Listener`] is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A file, which stays behind when the process is killed.
    File(PathBuf),
    /// A name that exists in the kernel alone, for as long as its listener does, within one network namespace.
    Abstract(String),
}

impl Address {
    fn to_socket(&self) -> Result<SocketAddrUnix, ArenaError> {
        match self {
            Self::File(path) => SocketAddrUnix::new(path.as_path()),
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        }
        .map_err(ArenaError::system(
            "making a socket's address (107 bytes are the most)",
        ))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Abstract(name) => write!(formatter, "@{name}"),
        }
    }
}

/// What came over a channel.
#[derive(Debug)]
pub struct Message {
    /// Its bytes.
    pub payload: Vec<u8>,
    /// The descriptors that came with it, this process's own; closed when they are dropped.
    pub descriptors: Vec<OwnedFd>,
}

/// One end of a connection that keeps messages apart (`SOCK_SEQPACKET`). The kernel closes it when its process dies.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// Both ends: one to be handed to a child.
    pub fn pair() -> Result<(Self, Self), ArenaError> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(ArenaError::system("making a pair of sockets"))?;
        Ok((Self { socket: one }, Self { socket: other }))
    }

    /// To a listener of the same user. `TimedOut` when it accepts nobody for ten seconds and too many wait already.
    pub fn connect(address: &Address) -> Result<Self, ArenaError> {
        let socket = new_socket(SocketFlags::empty())?;
        set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_LIMIT))
            .map_err(ArenaError::system("limiting a wait"))?;
        let address = address.to_socket()?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => return Self::of(socket),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(ArenaError::TimedOut),
                Err(error) => {
                    return Err(ArenaError::system("connecting to a channel's listener")(
                        error,
                    ));
                }
            }
        }
    }

    /// Over a connected socket, whose other end must be of the same user.
    pub fn of(socket: OwnedFd) -> Result<Self, ArenaError> {
        let domain = rustix::net::sockopt::socket_domain(&socket)
            .map_err(ArenaError::system("asking for a socket's family"))?;
        let kind = rustix::net::sockopt::socket_type(&socket)
            .map_err(ArenaError::system("asking for a socket's type"))?;
        if domain != AddressFamily::UNIX || kind != SocketType::SEQPACKET {
            return Err(bad("the socket is not of AF_UNIX and SOCK_SEQPACKET"));
        }
        let peer = rustix::net::sockopt::socket_peercred(&socket)
            .map_err(ArenaError::system("asking who is at the other end"))?;
        check_peer(peer.uid.as_raw(), rustix::process::geteuid().as_raw())?;
        Ok(Self { socket })
    }

    /// Sends one message, within `patience` (none: however long it takes until the receiver has room). Descriptors stay
    /// the caller's: the receiver gets duplicates.
    pub fn send(
        &self,
        payload: &[u8],
        descriptors: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> Result<(), ArenaError> {
        if payload.is_empty() || payload.len() > MAX_PAYLOAD {
            return Err(ArenaError::BadMessage {
                why: format!("{} bytes: 1 to {MAX_PAYLOAD} go into one", payload.len()),
            });
        }
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(ArenaError::BadMessage {
                why: format!(
                    "{} descriptors: {MAX_DESCRIPTORS} go into one at most; send several",
                    descriptors.len()
                ),
            });
        }
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(bad("its descriptors do not fit"));
        }
        let parts = [IoSlice::new(payload)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let wait = Wait::new(patience);
        loop {
            match sendmsg(&self.socket, &parts, &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait.until(&self.socket, PollFlags::OUT)?,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ArenaError::HungUp),
                Err(error) => return Err(ArenaError::system("sending a message")(error)),
            }
        }
    }

    /// The next message, within `patience` (none: however long it takes).
    pub fn receive(&self, patience: Option<Duration>) -> Result<Message, ArenaError> {
        let wait = Wait::new(patience);
        let mut payload = vec![0; MAX_PAYLOAD];
        let mut room = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(&mut payload)];
        let received = loop {
            match recvmsg(&self.socket, &mut parts, &mut control, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait.until(&self.socket, PollFlags::IN)?,
                Err(Errno::CONNRESET) => return Err(ArenaError::HungUp),
                Err(error) => return Err(ArenaError::system("receiving a message")(error)),
            }
        };
        // From here on every descriptor that came is owned, and closed by whatever way this function is left.
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(came) = message {
                descriptors.extend(came);
            }
        }
        if received.bytes == 0 {
            return Err(ArenaError::HungUp);
        }
        let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
        if received.flags.intersects(cut) || descriptors.len() > MAX_DESCRIPTORS {
            return Err(bad("it has more bytes or descriptors than go into one"));
        }
        payload.truncate(received.bytes);
        Ok(Message {
            payload,
            descriptors,
        })
    }

    /// Whether the other end is closed. What it sent before may still be received.
    pub fn hung_up(&self) -> Result<bool, ArenaError> {
        let mut ends = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut ends, Some(&now)).map_err(ArenaError::system("asking for a hang-up"))?;
        Ok(ends[0]
            .revents()
            .intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.socket
    }
}

/// Where processes of the same user connect to.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Listener {
    /// Listens. `AddressInUse` when somebody does, also at a file that a killed process left.
    pub fn bind(address: &Address) -> Result<Self, ArenaError> {
        let socket = new_socket(SocketFlags::NONBLOCK)?;
        rustix::net::bind(&socket, &address.to_socket()?).map_err(|error| match error {
            Errno::ADDRINUSE => ArenaError::AddressInUse {
                address: address.to_string(),
            },
            error => ArenaError::system("listening for channels")(error),
        })?;
        rustix::net::listen(&socket, BACKLOG)
            .map_err(ArenaError::system("listening for channels"))?;
        Ok(Self {
            socket,
            address: address.clone(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection, within `patience` (none: however long it takes). `OtherUser`: it was closed at once.
    pub fn accept(&self, patience: Option<Duration>) -> Result<Channel, ArenaError> {
        let wait = Wait::new(patience);
        loop {
            match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => return Channel::of(socket),
                // Who connected may be gone already.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => wait.until(&self.socket, PollFlags::IN)?,
                Err(error) => return Err(ArenaError::system("accepting a channel")(error)),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::File(path) = &self.address {
            // Nobody can connect any more: a file that cannot be removed harms nobody.
            let _ = rustix::fs::unlink(path);
        }
    }
}

/// That the process at the other end runs as the same user: whoever has a descriptor can read and write all of an arena.
pub fn check_peer(peer: u32, own: u32) -> Result<(), ArenaError> {
    if peer == own {
        return Ok(());
    }
    Err(ArenaError::OtherUser { peer, own })
}

fn new_socket(flags: SocketFlags) -> Result<OwnedFd, ArenaError> {
    rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags | SocketFlags::CLOEXEC,
        None,
    )
    .map_err(ArenaError::system("making a socket"))
}

/// How long one call may take in all.
struct Wait(Option<Instant>);

impl Wait {
    fn new(patience: Option<Duration>) -> Self {
        Self(patience.and_then(|patience| Instant::now().checked_add(patience)))
    }

    /// Returns when the socket is worth another try.
    fn until(&self, socket: &OwnedFd, event: PollFlags) -> Result<(), ArenaError> {
        let left = self
            .0
            .map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut ends = [PollFd::new(socket, event)];
        match poll(&mut ends, left.as_ref()) {
            Ok(0) => Err(ArenaError::TimedOut),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(ArenaError::system("waiting for a channel")(error)),
        }
    }
}

fn bad(why: &str) -> ArenaError {
    ArenaError::BadMessage { why: why.into() }
}
