"""Where webhooks may go: the form of an endpoint's address, and the networks that a host may be in. Pure.

Whoever may name an address must not reach the inside of the server's network with it. So each address that a host
resolves to is checked when a message is sent, and the connection is made to one that was: a name that means another
machine a moment later changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from annotation.core.errors import N_, AssayError

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network
MAX_URL_CHARACTERS = 500
USUAL_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^\x21-\x7e]|\\")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9])?")
# Beside what Python knows to be private, link-local, shared, reserved or multicast: addresses that lead to another one
# (6to4, Teredo, NAT64 and IPv4 within IPv6), and the one public address at which a cloud answers its own machines.
NEVER_PUBLIC: tuple[IpNetwork, ...] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "192.88.99.0/24",
        "::/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2001::/32",
        "2002::/16",
        "fec0::/10",
    )
)


class AddressRefused(AssayError):
    """The host is, or also is, where webhooks may not go. It does not say where: that is for the operator alone."""

    code = "address_refused"


@dataclass(frozen=True)
class AddressRules:
    """What the operator allows beyond the public internet over HTTPS."""

    networks: tuple[IpNetwork, ...] = ()
    allows_http: bool = False


@dataclass(frozen=True)
class Target:
    """The parts of a checked address; ``path`` has the query in it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def netloc(self) -> str:
        """For the header ``Host``: as the address says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == USUAL_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}"

    def pin(self, address: str) -> str:
        """The same address with a number in place of the host."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_target(url: str, rules: AddressRules) -> Target:
    """AssayError for what is no address of a receiver. A host is not resolved here; one in numbers is checked."""
    if not url or len(url) > MAX_URL_CHARACTERS or _UNSAFE.search(url):
        raise AssayError(
            N_("Write the whole address, in ASCII without blanks, at most {longest} characters."),
            longest=MAX_URL_CHARACTERS,
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
        number = _read_number(host)
    except ValueError:
        raise AssayError(N_("This is not an address: write https://HOST/PATH.")) from None
    if parts.scheme == "http" and not rules.allows_http:
        raise AssayError(N_("Webhooks of this site need HTTPS: write https://."))
    if parts.scheme not in USUAL_PORTS or not host or port == 0:
        raise AssayError(N_("This is not an address: write https://HOST/PATH."))
    if number is None and not all(map(_LABEL.fullmatch, host.split("."))):
        raise AssayError(N_("This is not an address: write https://HOST/PATH."))
    if "@" in parts.netloc or parts.fragment:
        raise AssayError(N_("The address has no user, password or # in it."))
    if number is not None:
        choose_address([str(number)], rules)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, str(number or host), port or USUAL_PORTS[parts.scheme], path)


def _read_number(host: str) -> IpAddress | None:
    """The address that a host in numbers is. ValueError for numbers that are none, such as 127.1 or 0x7f000001, which
    some resolvers take for one.
    """
    last = host.rpartition(".")[2]
    if ":" in host or last.isdecimal() or re.fullmatch(r"0[xX][0-9a-fA-F]*", last):
        return ip_address(host)
    return None


def choose_address(addresses: Iterable[str], rules: AddressRules) -> str:
    """The first of what a host resolved to. Raises AddressRefused where any of them may not be reached: a host that is
    both outside and inside is refused whole.
    """
    numbers = [ip_address(address) for address in addresses]
    if not numbers or not all(is_allowed(number, rules) for number in numbers):
        raise AddressRefused(
            N_("The host is in a network that webhooks may not reach. An operator can allow it.")
        )
    return str(numbers[0])


def is_allowed(number: IpAddress, rules: AddressRules) -> bool:
    bare = _unwrap(number)
    return any(bare in network for network in rules.networks if network.version == bare.version) or is_public(
        bare
    )


def is_public(number: IpAddress) -> bool:
    """Whether anybody on the internet could be there."""
    bare = _unwrap(number)
    if any(bare in network for network in NEVER_PUBLIC if network.version == bare.version):
        return False
    return bare.is_global and not (bare.is_multicast or bare.is_reserved or bare.is_unspecified)


def _unwrap(number: IpAddress) -> IpAddress:
    """An address of IPv4 that is written as one of IPv6 is the same machine."""
    mapped = number.ipv4_mapped if isinstance(number, IPv6Address) else None
    return number if mapped is None else mapped
