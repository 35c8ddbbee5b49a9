"""Where data services listen: "unix:@NAME" (gone with its process) on one host, "tcp:HOST:PORT" between hosts."""

from __future__ import annotations

import os
import socket
import ssl
import struct

from omniflow.config import TlsConfig
from omniflow.data.framing import Framed, HungUp

_UNIX = "unix:"
_TCP = "tcp:"
_CREDENTIALS = struct.Struct("iII")


def is_unix(address: str) -> bool:
    """Whether only processes of this host can reach it."""
    return address.startswith(_UNIX)


def unix_name(address: str) -> str:
    """What the system calls it: a path, or a name without a file."""
    name = address.removeprefix(_UNIX)
    return "\0" + name[1:] if name.startswith("@") else name


def host_and_port(address: str) -> tuple[str, int]:
    """Of a TCP address. Raises ValueError for another one."""
    host, _, port = address.removeprefix(_TCP).rpartition(":")
    if not address.startswith(_TCP) or not host or not port.isdigit():
        raise ValueError(f"{address!r} is neither unix:@NAME nor tcp:HOST:PORT")
    return host.strip("[]"), int(port)


def dial(address: str, tls: TlsConfig | None, patience: float) -> Framed:
    """Connects within `patience` seconds, encrypted over TCP where the cluster has certificates.

    Raises `HungUp` when nobody is there, or somebody who is none of ours; ValueError for an address that is none.
    """
    try:
        if is_unix(address):
            return Framed(_dial_unix(address, patience))
        host, port = host_and_port(address)
        plain = socket.create_connection((host, port), timeout=patience)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return Framed(plain)
        try:
            return Framed(client_context(tls).wrap_socket(plain, server_hostname=host))
        except BaseException:
            plain.close()
            raise
    except OSError as error:
        raise HungUp(f"{address}: {error}") from error


def is_ours(end: socket.socket) -> bool:
    """Whether a process of this user is at the other end of a Unix socket."""
    found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, uid, _gid = _CREDENTIALS.unpack(found)
    return bool(uid == os.getuid())


def client_context(tls: TlsConfig) -> ssl.SSLContext:
    """Of the side that dials. Raises OSError for files that do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _loaded(context, tls)


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """Of the side that listens: it takes only who shows a certificate of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, tls)


def _loaded(context: ssl.SSLContext, tls: TlsConfig) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key)
    context.load_verify_locations(tls.authority)
    return context


def _dial_unix(address: str, patience: float) -> socket.socket:
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.settimeout(patience)
        end.connect(unix_name(address))
        if not is_ours(end):
            raise PermissionError("a process of another user listens there")
    except BaseException:
        end.close()
        raise
    return end
