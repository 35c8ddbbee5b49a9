//! Messages and codecs of the wire contract (prost code, checked in).
