"""A Kubernetes control plane on loopback: etcd, the API server and, where it is there, the controller manager."""

import asyncio
import base64
import ssl
from pathlib import Path

import aiohttp
import yaml

from app.dev.binaries import ControlPlaneBinaries
from app.dev.pki import KeyPair, Pki, ensure_pki, write_private
from app.dev.ports import LOOPBACK, PortBook
from app.dev.processes import ChildProcess, ProcessFailedError

_START_ATTEMPTS = 3
_READY_SECONDS = 60.0
_REQUEST_SECONDS = 5.0
_PORT_TAKEN = "address already in use"


class ControlPlane:
    """A control plane whose state lives in a folder and survives restarts.

    Attributes:
        kubeconfig: File for kubectl and clients, with full rights, readable for its owner alone. There after ``start``.
        pki_directory: Folder of its keys and certificates, for ``ensure_pki``.
        server: URL of the API server after ``start``, on loopback.
    """

    def __init__(
        self,
        state_directory: Path,
        binaries: ControlPlaneBinaries,
        ports: PortBook | None = None,
        *,
        fsync: bool = True,
    ) -> None:
        """Prepare a control plane; nothing runs yet.

        Args:
            state_directory: Keys, etcd's data, logs, ports and the kubeconfig go here.
            binaries: The programs.
            ports: Where ports come from; ``ports.json`` in the state folder when None.
            fsync: False is quicker and loses data when the machine crashes: for tests only.
        """
        self.kubeconfig = state_directory / "kubeconfig"
        self.pki_directory = state_directory / "pki"
        self.server = ""
        self._directory = state_directory
        self._binaries = binaries
        self._ports = ports or PortBook(state_directory / "ports.json")
        self._fsync = fsync
        self._children: list[ChildProcess] = []

    @property
    def children(self) -> tuple[ChildProcess, ...]:
        """The running programs, in the order of their start."""
        return tuple(self._children)

    async def start(self) -> None:
        """Start the programs and wait until each is ready.

        Raises:
            ProcessFailedError: One of them did not become ready; none is running then.
        """
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                await self._start_once()
                return
            except ProcessFailedError as error:
                await self.stop()
                if _PORT_TAKEN not in str(error) or attempt == _START_ATTEMPTS:
                    raise
            except BaseException:
                await self.stop()
                raise

    async def stop(self) -> None:
        """Stop the programs, the last one started first."""
        while self._children:
            await self._children[-1].stop()
            self._children.pop()

    async def _start_once(self) -> None:
        pki, ports = await asyncio.to_thread(self._prepare)
        context = await asyncio.to_thread(client_context, pki)
        await self._start_etcd(pki, ports, context)
        await self._start_api_server(pki, ports, context)
        self.server = f"https://{LOOPBACK}:{ports['kube-apiserver']}"
        kubeconfig = render_kubeconfig(self.server, pki.authority, pki.admin)
        await asyncio.to_thread(write_private, self.kubeconfig, kubeconfig)
        if self._binaries.kube_controller_manager is not None:
            await self._start_controller_manager(self._binaries.kube_controller_manager, pki, ports, context)

    def _prepare(self) -> tuple[Pki, dict[str, int]]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ports = self._ports.choose("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager")
        return ensure_pki(self.pki_directory), ports

    async def _start_etcd(self, pki: Pki, ports: dict[str, int], context: ssl.SSLContext) -> None:
        client_url = f"https://{LOOPBACK}:{ports['etcd']}"
        peer_url = f"https://{LOOPBACK}:{ports['etcd-peer']}"
        # etcd holds every Secret in the clear, so a loopback port that any local user may open asks for a certificate.
        command: list[str | Path] = [
            self._binaries.etcd,
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            f"--cert-file={pki.server.certificate}",
            f"--key-file={pki.server.key}",
            f"--trusted-ca-file={pki.authority.certificate}",
            "--client-cert-auth",
            f"--peer-cert-file={pki.server.certificate}",
            f"--peer-key-file={pki.server.key}",
            f"--peer-trusted-ca-file={pki.authority.certificate}",
            "--peer-client-cert-auth",
            "--enable-grpc-gateway=false",
            "--log-level=warn",
        ]
        if not self._fsync:
            command.append("--unsafe-no-fsync")
        await self._start_child("etcd", command, f"{client_url}/readyz", context)

    async def _start_api_server(self, pki: Pki, ports: dict[str, int], context: ssl.SSLContext) -> None:
        port = ports["kube-apiserver"]
        command: list[str | Path] = [
            self._binaries.kube_apiserver,
            f"--etcd-servers=https://{LOOPBACK}:{ports['etcd']}",
            f"--etcd-cafile={pki.authority.certificate}",
            f"--etcd-certfile={pki.server.certificate}",
            f"--etcd-keyfile={pki.server.key}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",
            f"--secure-port={port}",
            # A loopback address may not be an endpoint of the service `kubernetes`.
            "--endpoint-reconciler-type=none",
            *_serving_flags(pki.server),
            f"--client-ca-file={pki.authority.certificate}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.service_account_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            # For logs and exec in Pods, where a node is added.
            f"--kubelet-certificate-authority={pki.authority.certificate}",
            f"--kubelet-client-certificate={pki.admin.certificate}",
            f"--kubelet-client-key={pki.admin.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
        ]
        await self._start_child("kube-apiserver", command, f"https://{LOOPBACK}:{port}/readyz", context)

    async def _start_controller_manager(
        self, program: Path, pki: Pki, ports: dict[str, int], context: ssl.SSLContext
    ) -> None:
        port = ports["kube-controller-manager"]
        command: list[str | Path] = [
            program,
            f"--kubeconfig={self.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            *_serving_flags(pki.server),
            "--leader-elect=false",
            "--profiling=false",
            f"--service-account-private-key-file={pki.service_account_key}",
            f"--root-ca-file={pki.authority.certificate}",
            "--use-service-account-credentials",
        ]
        await self._start_child("kube-controller-manager", command, f"https://{LOOPBACK}:{port}/healthz", context)

    async def _start_child(self, name: str, command: list[str | Path], ready_url: str, context: ssl.SSLContext) -> None:
        async def ready() -> bool:
            return await answers_ok(ready_url, context)

        log_path = self._directory / "logs" / f"{name}.log"
        child = await ChildProcess.start(name, command, log_path, ready=ready, deadline=_READY_SECONDS)
        self._children.append(child)


def _serving_flags(pair: KeyPair) -> list[str]:
    return [f"--tls-cert-file={pair.certificate}", f"--tls-private-key-file={pair.key}"]


def client_context(pki: Pki) -> ssl.SSLContext:
    """Return TLS settings of the control plane's administrator."""
    context = ssl.create_default_context(cafile=str(pki.authority.certificate))
    context.load_cert_chain(pki.admin.certificate, pki.admin.key)
    return context


async def answers_ok(url: str, context: ssl.SSLContext) -> bool:
    """Whether a GET is answered with 200."""
    timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, ssl=context) as response:
        return response.status == 200


def render_kubeconfig(server: str, authority: KeyPair, client: KeyPair) -> bytes:
    """Return a kubeconfig with the certificates in it.

    Args:
        server: URL of the API server.
        authority: Whose certificates the API server shows.
        client: Who the holder is.
    """

    def encoded(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    name = "egress-proxies"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": encoded(authority.certificate)},
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": encoded(client.certificate),
                    "client-key-data": encoded(client.key),
                },
            }
        ],
    }
    return yaml.safe_dump(config, sort_keys=False).encode()
