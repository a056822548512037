# SPDX-License-Identifier: Apache-2.0
"""Certificates for the scripted API server, made by the openssl command."""
import pathlib
import subprocess


def _openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True,
                   capture_output=True)


class Authority:
    """A certificate authority with its files in a directory of its own."""

    def __init__(self, directory, name="scripted-ca"):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.cert = self.dir / (name + ".crt")
        self.key = self.dir / (name + ".key")
        self._new_key(self.key)
        _openssl("req", "-x509", "-new", "-key", self.key, "-subj",
                 "/CN=" + name, "-days", 30, "-out", self.cert,
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    @staticmethod
    def _new_key(path):
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout",
                 "-out", path)

    def issue(self, file_name, common_name, sans=(), organization=None,
              days=30, server=False):
        """A (certificate, key) pair of paths; 'sans' as "IP:x", "DNS:x".

        A negative 'days' makes a certificate that has expired."""
        cert = self.dir / (file_name + ".crt")
        key = self.dir / (file_name + ".key")
        request = self.dir / (file_name + ".csr")
        extensions = self.dir / (file_name + ".ext")
        subject = "/CN=" + common_name
        if organization:
            subject = "/O=" + organization + subject
        usage = "serverAuth" if server else "clientAuth"
        lines = ["extendedKeyUsage=" + usage]
        if sans:
            lines.append("subjectAltName=" + ",".join(sans))
        extensions.write_text("\n".join(lines) + "\n")
        self._new_key(key)
        _openssl("req", "-new", "-key", key, "-subj", subject, "-out",
                 request)
        _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey",
                 self.key, "-CAcreateserial", "-days", days, "-extfile",
                 extensions, "-out", cert)
        return cert, key

    def server(self, *addresses, file_name="server", **more):
        """A server certificate for IP addresses and DNS names."""
        sans = [("IP:" if _is_ip(a) else "DNS:") + a for a in addresses]
        return self.issue(file_name, "kube-apiserver", sans, server=True,
                          **more)

    def client(self, name="system:node:n1", organization="system:nodes",
               file_name="client", **more):
        """A client certificate."""
        return self.issue(file_name, name, organization=organization, **more)


def _is_ip(text):
    return ":" in text or text.replace(".", "").isdigit()
