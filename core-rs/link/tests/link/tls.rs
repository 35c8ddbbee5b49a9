//! Who is let in when links are encrypted, and what the others are told.

use std::path::Path;

use crate::support::{Ear, PATIENCE, link, message, patient, tcp};
use omniflow_link::{Address, Endpoint, LinkError, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority in a folder of its own.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let key = KeyPair::generate().expect("key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("signed");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("written");
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A certificate for a host, which trusts this authority.
    fn files(&self, host: &str) -> TlsFiles {
        let key = KeyPair::generate().expect("key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let file = |ending: &str| self.path().join(format!("{host}.{ending}"));
        std::fs::write(file("pem"), certificate.pem()).expect("written");
        std::fs::write(file("key"), key.serialize_pem()).expect("written");
        TlsFiles {
            certificate: file("pem"),
            key: file("key"),
            authority: self.path().join("ca.pem"),
        }
    }

    fn endpoint(&self, host: &str) -> Endpoint {
        secured(&self.files(host))
    }
}

fn secured(files: &TlsFiles) -> Endpoint {
    Endpoint::secured(patient(), Tls::load(files).expect("good files"))
}

/// What each side of a link that does not come to be is told.
async fn refusal(dialler: &Endpoint, listener: &Endpoint) -> (LinkError, LinkError) {
    let listener = listener.bind(&tcp()).await.expect("binds");
    let way = listener.address().clone();
    let (dialled, accepted) = tokio::join!(
        dialler.dial(std::slice::from_ref(&way), PATIENCE),
        listener.accept()
    );
    (
        dialled.map(drop).expect_err("refused"),
        accepted.map(drop).expect_err("refused"),
    )
}

#[track_caller]
fn says(error: &LinkError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[tokio::test]
async fn two_peers_of_one_authority_talk_in_both_directions() {
    let authority = Authority::new();
    let listener = authority
        .endpoint("127.0.0.1")
        .bind(&tcp())
        .await
        .expect("binds");
    let dialler = authority.endpoint("127.0.0.2");
    let way = listener.address().clone();
    let ((near, mut back), (far, mut there)) = link(&dialler, &way, &listener).await;
    let bulk = vec![3; 3 << 20];
    for sender in [&near, &far] {
        sender
            .send_all([message(1, bulk.clone()), message(2, "small")])
            .expect("sent");
    }
    for ear in [&mut there, &mut back] {
        let lengths: Vec<usize> = ear
            .take(2)
            .await
            .iter()
            .map(|message| message.body.len())
            .collect();
        assert_eq!(lengths, [9, 4 + bulk.len()]);
    }
    near.close();
    assert!(there.end().await.is_ok());
}

#[tokio::test]
async fn rule_13_an_encrypted_link_is_resumed_too() {
    let authority = Authority::new();
    let endpoint = authority.endpoint("127.0.0.1");
    let listener = endpoint.bind(&tcp()).await.expect("binds");
    let Address::Tcp { port, .. } = listener.address().clone() else {
        panic!("TCP");
    };
    let (way, cut) = tcp_wire(port).await;
    let ((near, _back), (_far, mut there)) =
        link(&authority.endpoint("127.0.0.2"), &way, &listener).await;
    for round in 0..3u8 {
        near.send(message(1, vec![round; 100_000])).expect("sent");
        assert_eq!(there.next().await.body[4..], vec![round; 100_000]);
        cut.send_modify(|cuts| *cuts += 1);
    }
    near.send(message(1, "last")).expect("sent");
    assert_eq!(there.next().await.body[4..], b"last"[..]);
}

async fn tcp_wire(port: u16) -> (Address, tokio::sync::watch::Sender<u64>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("binds");
    let own = listener.local_addr().expect("an address").port();
    let (cut, cuts) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut cuts = cuts.clone();
            cuts.mark_unchanged();
            let mut far = tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .expect("reachable");
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    _ = cuts.changed() => {}
                }
            });
        }
    });
    let address = Address::Tcp {
        host: "127.0.0.1".to_owned(),
        port: own,
    };
    (address, cut)
}

#[tokio::test]
async fn a_dialler_of_another_authority_is_refused_and_both_sides_say_who() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    // It trusts ours, but its own certificate is another's.
    let files = TlsFiles {
        authority: ours.path().join("ca.pem"),
        ..theirs.files("127.0.0.1")
    };
    let (dialler, listener) = refusal(&secured(&files), &ours.endpoint("127.0.0.1")).await;
    says(
        &dialler,
        &[
            "tcp:127.0.0.1",
            "refused this side's certificate",
            "docs/clusters.md",
        ],
    );
    says(
        &listener,
        &[
            "the peer at 127.0.0.1",
            "its certificate is not good",
            "docs/clusters.md",
        ],
    );
}

#[tokio::test]
async fn a_listener_of_another_authority_is_refused_and_both_sides_say_who() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (dialler, listener) =
        refusal(&ours.endpoint("127.0.0.1"), &theirs.endpoint("127.0.0.1")).await;
    says(&dialler, &["tcp:127.0.0.1", "its certificate is not good"]);
    says(
        &listener,
        &["the peer at 127.0.0.1", "refused this side's certificate"],
    );
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let (dialler, _) = refusal(
        &authority.endpoint("127.0.0.1"),
        &authority.endpoint("example.org"),
    )
    .await;
    says(&dialler, &["its certificate is not good", "names its host"]);
}

#[tokio::test]
async fn a_side_without_certificates_is_told_so_and_so_is_the_other() {
    let authority = Authority::new();
    let (plain, encrypted) = (Endpoint::new(patient()), authority.endpoint("127.0.0.1"));
    let (dialler, listener) = refusal(&plain, &encrypted).await;
    says(&dialler, &["speaks TLS", "`tls`"]);
    says(&listener, &["does not speak TLS", "`tls`"]);
    let (dialler, listener) = refusal(&encrypted, &plain).await;
    says(&dialler, &["does not speak TLS", "`tls`"]);
    says(&listener, &["speaks TLS", "`tls`"]);
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_cure() {
    let authority = Authority::new();
    let good = authority.files("127.0.0.1");
    let other = authority.files("127.0.0.2");
    let empty = authority.path().join("empty.pem");
    std::fs::write(&empty, "nothing").expect("written");
    let refused = |files: &TlsFiles| Tls::load(files).expect_err("refused");
    let missing = authority.path().join("missing.pem");
    says(
        &refused(&TlsFiles {
            certificate: missing,
            ..good.clone()
        }),
        &["missing.pem", "cannot be read", "`tls`"],
    );
    says(
        &refused(&TlsFiles {
            key: empty.clone(),
            ..good.clone()
        }),
        &["empty.pem", "private key", "PEM"],
    );
    says(
        &refused(&TlsFiles {
            authority: empty,
            ..good.clone()
        }),
        &["empty.pem", "certificate", "PEM"],
    );
    says(
        &refused(&TlsFiles {
            key: other.key,
            ..good
        }),
        &["127.0.0.1.pem", "does not fit the key", "127.0.0.2.key"],
    );
}

#[tokio::test]
async fn unix_sockets_stay_plain_with_and_without_certificates() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().expect("folder");
    let address = crate::support::unix(&folder);
    let listener = authority
        .endpoint("127.0.0.1")
        .bind(&address)
        .await
        .expect("binds");
    let ((near, _back), (_far, mut there)) =
        link(&Endpoint::new(patient()), &address, &listener).await;
    near.send(message(1, "plain")).expect("sent");
    assert_eq!(&there.next().await.body[4..], b"plain");
    let _: Ear = there;
}
