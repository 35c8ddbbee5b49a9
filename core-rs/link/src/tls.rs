//! Mutual TLS for TCP links: both sides show a certificate of the cluster's authority, or do not talk.

use std::fmt;
use std::io;
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use crate::error::LinkError;

/// Where this side's certificate, its key and the certificate of the cluster's authority are; all of them PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and behind it those that lead to the authority, if any.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority that every peer's certificate must come from.
    pub authority: PathBuf,
}

/// This side's certificate and whom it trusts.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of a key gets into a log.
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads and checks the files. Fails with `Certificate`, naming the file.
    pub fn load(files: &TlsFiles) -> Result<Self, LinkError> {
        let chain = certificates(&files.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .map_err(|error| unreadable(&files.key, "private key", &error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authority)? {
            roots.add(authority).map_err(|error| {
                bad(
                    &files.authority,
                    format!("it is no authority's certificate ({error})"),
                    "make it with `openssl req -x509`, see docs/clusters.md",
                )
            })?;
        }
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let unfit = |error: rustls::Error| {
            bad(
                &files.certificate,
                format!(
                    "it does not fit the key in {} ({error})",
                    files.key.display()
                ),
                "give the key that the certificate was requested with",
            )
        };
        let odd = |error: String| {
            bad(
                &files.authority,
                error,
                "make it anew, see docs/clusters.md",
            )
        };
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| odd(error.to_string()))?;
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| odd(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(unfit)?;
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| odd(error.to_string()))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(unfit)?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(client)),
            acceptor: TlsAcceptor::from(Arc::new(server)),
        })
    }

    /// The dialling side's handshake with `host`, a name or an address that the other's certificate must have.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        peer: &str,
    ) -> Result<TlsSocket, LinkError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| LinkError::Untrusted {
            peer: peer.to_owned(),
            problem: format!("{host:?} can be in no certificate ({error})"),
            cure: "use a host name or an IP address",
        })?;
        let handle = handle(&stream)?;
        let stream = self.connector.connect(name, stream).await;
        let stream = stream.map_err(|error| explain(error, peer))?;
        Ok(TlsSocket::new(TlsStream::from(stream), handle))
    }

    /// The listening side's handshake.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        peer: &str,
    ) -> Result<TlsSocket, LinkError> {
        let handle = handle(&stream)?;
        let stream = self.acceptor.accept(stream).await;
        let stream = stream.map_err(|error| explain(error, peer))?;
        Ok(TlsSocket::new(TlsStream::from(stream), handle))
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, LinkError> {
    let read = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(file, "certificate", &error))?;
    if read.is_empty() {
        return Err(unreadable(file, "certificate", &pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn unreadable(file: &Path, what: &str, error: &pem::Error) -> LinkError {
    match error {
        pem::Error::Io(error) => bad(
            file,
            format!("it cannot be read ({error})"),
            "check the paths under `tls` in the cluster file, and who may read them",
        ),
        error => bad(
            file,
            format!("there is no {what} in it ({error:?})"),
            "it has to be PEM, as openssl writes it; see docs/clusters.md",
        ),
    }
}

fn bad(file: &Path, problem: String, cure: &'static str) -> LinkError {
    LinkError::Certificate {
        file: file.display().to_string(),
        problem,
        cure,
    }
}

fn handle(stream: &TcpStream) -> Result<socket2::Socket, LinkError> {
    socket2::SockRef::from(stream)
        .try_clone()
        .map_err(LinkError::io("keeping a handle on a TLS socket"))
}

/// Which side's certificate is wrong. Other errors of the connection stay what they are.
pub(crate) fn explain(error: io::Error, peer: &str) -> LinkError {
    use rustls::{AlertDescription as Alert, Error};
    let Some(cause) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    else {
        return LinkError::Io {
            doing: "securing a link",
            source: error,
        };
    };
    let (problem, cure) = match cause {
        Error::InvalidCertificate(problem) => (
            format!("its certificate is not good ({problem})"),
            "give that side a certificate of this cluster's authority that names its host, see docs/clusters.md",
        ),
        Error::NoCertificatesPresented => (
            "it showed no certificate".to_owned(),
            "set `tls` in that side's cluster file, see docs/clusters.md",
        ),
        Error::AlertReceived(Alert::CertificateRequired) => (
            "it wants a certificate of this side, which showed none".to_owned(),
            "set `tls` in this side's cluster file, see docs/clusters.md",
        ),
        Error::AlertReceived(alert) => (
            format!("it refused this side's certificate ({alert:?})"),
            "give this side a certificate of the same authority that names its host, see docs/clusters.md",
        ),
        Error::InvalidMessage(_) => (
            "it does not speak TLS".to_owned(),
            "give both sides the same `tls` in their cluster files",
        ),
        other => (
            other.to_string(),
            "compare `tls` in both sides' cluster files, see docs/clusters.md",
        ),
    };
    LinkError::Untrusted {
        peer: peer.to_owned(),
        problem,
        cure,
    }
}

/// Both directions of an encrypted connection. Each is used by one task at a time, so that the locks never wait.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    read: Mutex<ReadHalf<TlsStream<TcpStream>>>,
    write: Mutex<WriteHalf<TlsStream<TcpStream>>>,
    /// The bare socket: what ends a read or a write that waits.
    handle: socket2::Socket,
}

impl TlsSocket {
    fn new(stream: TlsStream<TcpStream>, handle: socket2::Socket) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self {
            read: Mutex::new(read),
            write: Mutex::new(write),
            handle,
        }
    }

    pub(crate) async fn read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        self.read.lock().await.read_buf(buffer).await
    }

    pub(crate) async fn write(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut write = self.write.lock().await;
        let written = write.write_vectored(slices).await?;
        // What is encrypted may still lie in the session's buffer.
        write.flush().await?;
        Ok(written)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.handle.shutdown(how)
    }
}
