//! Where a peer listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::LinkError;

/// `sun_path` has room for 107 bytes and a zero.
const MAX_UNIX_PATH: usize = 107;

/// `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket file on this host.
    Unix(PathBuf),
    /// A TCP port; the host is a name, an IPv4 address or an IPv6 address in brackets.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// Port; 0 means any, for a listener.
        port: u16,
    },
}

impl FromStr for Address {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let bad = |problem: String| LinkError::BadAddress {
            address: text.to_owned(),
            problem,
        };
        match text.split_once(':') {
            Some(("unix", "")) => Err(bad("the path is empty".to_owned())),
            Some(("unix", path)) if path.len() > MAX_UNIX_PATH => Err(bad(format!(
                "a socket's path has at most {MAX_UNIX_PATH} bytes, this one has {}",
                path.len()
            ))),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", rest)) => {
                let (host, port) = rest
                    .rsplit_once(':')
                    .ok_or_else(|| bad("the port is missing".to_owned()))?;
                let host = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'))
                    .unwrap_or(host);
                if host.is_empty() {
                    return Err(bad("the host is empty".to_owned()));
                }
                let port = port
                    .parse()
                    .map_err(|_| bad(format!("{port:?} is no port")))?;
                Ok(Self::Tcp {
                    host: host.to_owned(),
                    port,
                })
            }
            _ => Err(bad("it has no scheme that is known".to_owned())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_text() {
        for text in ["unix:/run/a.sock", "tcp:localhost:80", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Address>().expect("good").to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        let long = format!("unix:/{}", "x".repeat(200));
        for text in [
            "", "unix:", "tcp:host", "tcp::1", "tcp:a:b", "http:a:1", &long,
        ] {
            assert!(matches!(
                text.parse::<Address>(),
                Err(LinkError::BadAddress { .. })
            ));
        }
    }
}
