//! Hello and Welcome: who is at the other end, and whether to talk to it.

use std::time::Duration;

use omniflow_link::{LinkReader, Received};
use omniflow_wire::{LinkMessage, PROTOCOL, v1};
use tokio::time::timeout;

use crate::io::Identity;

/// How long the first message of the other side may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The first message of a link, what came behind it stays in `messages`.
pub(crate) async fn first(
    reader: &mut LinkReader,
    messages: &mut Vec<Received>,
) -> Result<LinkMessage, String> {
    match timeout(PATIENCE, reader.read(messages)).await {
        Err(_) => Err(format!("no handshake in {PATIENCE:?}")),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(false)) => Err("it closed the link before the handshake".to_owned()),
        Ok(Ok(true)) => {
            let first = messages.remove(0);
            LinkMessage::decode(first.kind, first.body).map_err(|error| error.to_string())
        }
    }
}

impl Identity {
    /// The Hello to another worker.
    /// `arena`: where readers get the memory of what is lent.
    pub(crate) fn hello(&self, to: &str, to_incarnation: &str, arena: &str) -> v1::Hello {
        v1::Hello {
            protocol: PROTOCOL,
            cluster: self.cluster.clone(),
            from: self.name.clone(),
            from_incarnation: self.incarnation.clone(),
            to: to.to_owned(),
            to_incarnation: to_incarnation.to_owned(),
            term: 0,
            host: self.host.clone(),
            arena: arena.to_owned(),
        }
    }

    /// Whether a Hello is for this very worker.
    pub(crate) fn check(&self, hello: &v1::Hello) -> Result<(), Box<v1::Error>> {
        if hello.protocol != PROTOCOL {
            let message = format!("protocol {}, this worker speaks {PROTOCOL}", hello.protocol);
            return Err(refusal(
                "protocol",
                message,
                "run one version of omniflow everywhere",
            ));
        }
        if hello.cluster != self.cluster {
            let message = format!("cluster {:?}, this is {:?}", hello.cluster, self.cluster);
            return Err(refusal(
                "cluster",
                message,
                "check the addresses of both clusters",
            ));
        }
        let name_fits = hello.to == self.name;
        let incarnation_fits =
            hello.to_incarnation.is_empty() || hello.to_incarnation == self.incarnation;
        if !name_fits || !incarnation_fits {
            let message = format!(
                "worker {} of incarnation {} was wanted, this is {} of incarnation {}",
                hello.to, hello.to_incarnation, self.name, self.incarnation
            );
            return Err(refusal("to", message, "look it up in the registry again"));
        }
        Ok(())
    }
}

fn refusal(field: &str, message: String, cure: &str) -> Box<v1::Error> {
    Box::new(v1::Error {
        code: v1::ErrorCode::InvalidArgument.into(),
        message,
        field: field.to_owned(),
        cure: cure.to_owned(),
        ..Default::default()
    })
}

/// Why a scheduler of an earlier term is refused.
pub(crate) fn old_term(term: u64, highest: u64) -> v1::Error {
    v1::Error {
        code: v1::ErrorCode::Unavailable.into(),
        message: format!("term {term} is over: term {highest} was seen"),
        field: "term".to_owned(),
        cure: "stand back, and stand for election again".to_owned(),
        ..Default::default()
    }
}
