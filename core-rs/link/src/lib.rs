//! Framed peer links over Unix sockets and TCP: lengths, fragments, interleaving; no meaning.
