//! How a peer is reached.

use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Address;
use crate::error::{GreetingProblem, LinkError};
use crate::greeting::{Greeting, Purpose};
use crate::socket::Socket;
use crate::tls::{Tls, explain};

/// A peer's addresses, and what it takes to talk to it.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) addresses: Vec<Address>,
    /// How long one address may take.
    pub(crate) patience: Duration,
    pub(crate) tls: Option<Tls>,
}

impl Route {
    /// Greets whoever answers first, and returns the answer, which is `Welcome` or `Unknown`.
    ///
    /// Fails with `Unreachable` when nobody listens, with `NoAnswer` when somebody may be there, and with what is wrong
    /// with the last one that answered.
    pub(crate) async fn reach(&self, greeting: &Greeting) -> Result<(Socket, Greeting), LinkError> {
        let (mut tried, mut silent, mut answered) = (Vec::new(), false, None);
        for address in &self.addresses {
            match timeout(self.patience, self.greet(address, greeting)).await {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(LinkError::Io { source, .. })) => {
                    silent |= !is_absence(&source);
                    tried.push(format!("{address} ({source})"));
                }
                Ok(Err(error)) => answered = Some(error),
                Err(_) => {
                    silent = true;
                    tried.push(format!("{address} (no answer in {:?})", self.patience));
                }
            }
        }
        if let Some(error) = answered {
            return Err(error);
        }
        if tried.is_empty() {
            tried.push("it has none".to_owned());
        }
        let tried = tried.join(", ");
        Err(if silent {
            LinkError::NoAnswer(tried)
        } else {
            LinkError::Unreachable(tried)
        })
    }

    async fn greet(
        &self,
        address: &Address,
        greeting: &Greeting,
    ) -> Result<(Socket, Greeting), LinkError> {
        let socket = self.connect(address).await?;
        let peer = || address.to_string();
        let sent = greeting.write(&socket).await;
        sent.map_err(|error| explain(error, &peer()))?;
        let answer = Greeting::read(&socket)
            .await
            .map_err(|error| explain(error, &peer()))?;
        match answer {
            Ok(answer) if matches!(answer.purpose, Purpose::Welcome | Purpose::Unknown) => {
                Ok((socket, answer))
            }
            // It may be dying, or its own end of the connection broke: both show at the next try.
            Err(GreetingProblem::HungUp) => Err(LinkError::Io {
                doing: "greeting a peer",
                source: io::ErrorKind::UnexpectedEof.into(),
            }),
            Ok(_) => Err(LinkError::Greeting {
                peer: peer(),
                problem: GreetingProblem::OutOfTurn,
            }),
            Err(problem) => Err(LinkError::Greeting {
                peer: peer(),
                problem,
            }),
        }
    }

    async fn connect(&self, address: &Address) -> Result<Socket, LinkError> {
        let dialling = LinkError::io("dialling");
        match address {
            Address::Unix(path) => Ok(Socket::Unix(
                UnixStream::connect(path).await.map_err(dialling)?,
            )),
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))
                    .await
                    .map_err(dialling)?;
                stream
                    .set_nodelay(true)
                    .map_err(LinkError::io("switching Nagle's algorithm off"))?;
                match &self.tls {
                    Some(tls) => {
                        let secured = tls.connect(stream, host, &address.to_string()).await?;
                        Ok(Socket::Tls(Box::new(secured)))
                    }
                    None => Ok(Socket::Tcp(stream)),
                }
            }
        }
    }
}

/// Whether an error of dialling says that nobody is there, rather than that nobody answers.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound | io::ErrorKind::InvalidInput
    )
}
