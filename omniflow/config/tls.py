"""Certificates for links over TCP: the same section in the cluster file and in the file of a worker elsewhere."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

TLS_CURE = "mend the files under `tls`; docs/clusters.md shows how they are made"


class TlsConfig(BaseModel):
    """PEM files of one process. With them its links over TCP are encrypted, and peers must show a certificate of the
    same authority; without them links are plain. All processes of a cluster have to agree."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    certificate: Path
    """This side's certificate, for the host that others reach it by, and those between it and the authority, if any."""
    key: Path
    """Its private key."""
    authority: Path
    """The certificate of the cluster's authority."""

    @property
    def files(self) -> tuple[str, str, str]:
        """Certificate, key and authority, as the core takes them."""
        return str(self.certificate), str(self.key), str(self.authority)

    def beside(self, folder: Path) -> "TlsConfig":
        """The same with relative paths taken as relative to `folder`."""
        paths = {name: folder / path.expanduser() for name, path in self}
        return self.model_copy(update=paths)
