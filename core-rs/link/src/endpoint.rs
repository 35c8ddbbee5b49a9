//! This process as a peer: its bounds, its certificate, and the links that others may resume.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::address::Address;
use crate::config::LinkConfig;
use crate::error::{GreetingProblem, LinkError};
use crate::greeting::{Greeting, LinkId, Purpose};
use crate::listener::Listener;
use crate::reader::LinkReader;
use crate::route::Route;
use crate::sender::LinkSender;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::tasks;
use crate::tls::{Tls, explain};

/// Dials and listens. Clones are the same endpoint: a link that was accepted at one of its addresses can be resumed at
/// any other one.
#[derive(Debug, Clone)]
pub struct Endpoint(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: LinkConfig,
    tls: Option<Tls>,
    /// Links that peers opened. Those that are over are cleared away when a new one comes.
    accepted: Mutex<HashMap<LinkId, Weak<Shared>>>,
}

impl Endpoint {
    /// One that talks plainly.
    pub fn new(config: LinkConfig) -> Self {
        Self::with(config, None)
    }

    /// One that encrypts what goes over TCP, and wants the certificate of whoever is at the other end.
    pub fn secured(config: LinkConfig, tls: Tls) -> Self {
        Self::with(config, Some(tls))
    }

    fn with(config: LinkConfig, tls: Option<Tls>) -> Self {
        Self(Arc::new(Inner {
            config,
            tls,
            accepted: Mutex::default(),
        }))
    }

    /// The bounds of its links.
    pub fn config(&self) -> &LinkConfig {
        &self.0.config
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.0.tls.as_ref()
    }

    /// A new link to the first address that answers, giving each at most `patience`, now and whenever the connection
    /// breaks. Needs a tokio runtime, as everything here does.
    pub async fn dial(
        &self,
        addresses: &[Address],
        patience: Duration,
    ) -> Result<(LinkSender, LinkReader), LinkError> {
        let route = Route {
            addresses: addresses.to_vec(),
            patience,
            tls: self.0.tls.clone(),
        };
        let link = LinkId::random()?;
        let greeting = Greeting {
            purpose: Purpose::Open,
            link,
            received: 0,
        };
        let (socket, answer) = route.reach(&greeting).await?;
        if answer.purpose != Purpose::Welcome || answer.received != 0 {
            return Err(LinkError::Greeting {
                peer: text(addresses),
                problem: GreetingProblem::OutOfTurn,
            });
        }
        Ok(self.start(link, socket, Some(route)).1)
    }

    /// Listens at `address`. The socket file of a dead process is replaced; a living one is `AddressInUse`.
    pub async fn bind(&self, address: &Address) -> Result<Listener, LinkError> {
        Listener::bind(self.clone(), address).await
    }

    fn start(
        &self,
        link: LinkId,
        socket: Socket,
        route: Option<Route>,
    ) -> (Arc<Shared>, (LinkSender, LinkReader)) {
        let shared = Arc::new(Shared::new(link, self.0.config, socket));
        tokio::spawn(tasks::run(Arc::clone(&shared), route));
        tokio::spawn(tasks::watch(Arc::clone(&shared)));
        let reader = LinkReader::new(Arc::clone(&shared));
        (Arc::clone(&shared), (LinkSender(shared), reader))
    }

    /// What a socket that was accepted is for: a new link, or `None` when one of those that there are goes on with it.
    pub(crate) async fn greet(
        &self,
        socket: Socket,
        peer: &str,
    ) -> Result<Option<(LinkSender, LinkReader)>, LinkError> {
        let greeting = Greeting::read(&socket)
            .await
            .map_err(|error| explain(error, peer))?;
        let answered = match greeting {
            Ok(greeting) => self.answer(greeting, socket).await,
            Err(problem) => {
                // So that it learns which version, and whether TLS, is spoken here. It may be gone already.
                let _ = Greeting::refusal().write(&socket).await;
                Ok(Err(problem))
            }
        };
        match answered {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(problem)) => Err(LinkError::Greeting {
                peer: peer.to_owned(),
                problem,
            }),
            Err(error) => Err(explain(error, peer)),
        }
    }

    async fn answer(
        &self,
        greeting: Greeting,
        socket: Socket,
    ) -> std::io::Result<Result<Option<(LinkSender, LinkReader)>, GreetingProblem>> {
        let link = greeting.link;
        let answer = |purpose, received| Greeting {
            purpose,
            link,
            received,
        };
        let known = self.find(link);
        match (greeting.purpose, known) {
            (Purpose::Open, None) => {
                answer(Purpose::Welcome, 0).write(&socket).await?;
                let (shared, ends) = self.start(link, socket, None);
                self.remember(&shared);
                Ok(Ok(Some(ends)))
            }
            (Purpose::Resume, Some(shared)) if shared.can_resume(greeting.received) => {
                answer(Purpose::Welcome, shared.received())
                    .write(&socket)
                    .await?;
                shared.resume(socket, greeting.received);
                Ok(Ok(None))
            }
            (Purpose::Resume, _) => {
                answer(Purpose::Unknown, 0).write(&socket).await?;
                Ok(Ok(None))
            }
            // A greeting that was heard before, or an answer to none.
            _ => {
                Greeting::refusal().write(&socket).await?;
                Ok(Err(GreetingProblem::OutOfTurn))
            }
        }
    }

    fn find(&self, link: LinkId) -> Option<Arc<Shared>> {
        let accepted = self
            .0
            .accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        accepted
            .get(&link)
            .and_then(Weak::upgrade)
            .filter(|shared| !shared.is_over())
    }

    fn remember(&self, shared: &Arc<Shared>) {
        let mut accepted = self
            .0
            .accepted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        accepted.retain(|_, link| link.upgrade().is_some_and(|link| !link.is_over()));
        accepted.insert(shared.id, Arc::downgrade(shared));
    }
}

fn text(addresses: &[Address]) -> String {
    let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
    addresses.join(", ")
}
