"""Certificates for tests of TLS, made with openssl."""
import os
import subprocess
import tempfile


class Certificates:
    """Two authorities; a server certificate of the first, and a client certificate of each."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")
        for ca in ("ca", "other"):
            self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
        with open(os.path.join(self.dir, "names"), "w") as f:
            f.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
            self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
            self.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2",
                         "-extfile", "names", "-out", f"{name}.pem")

    def openssl(self, *args):
        subprocess.run(["openssl", *args], cwd=self.dir, check=True, capture_output=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def text(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def config(self, verify, **change):
        fields = {"server_key": self.text("server.key"), "server_cert": self.text("server.pem"), "custom_ca": self.text("ca.pem"), **change}
        return "".join(f'{k}: "{v}"\n'.replace("\n", "\\n")[:-2] + "\n" for k, v in fields.items()) + f"client_verify: {str(verify).lower()}\n"
