"""Pure parts of the metadata proxy: directory, headers, rate limit."""

from __future__ import annotations

import hashlib
import hmac
import random

import pytest

from neutrino.agent.metadata.messages import ANY_DEVICE, Instance, Sources
from neutrino.agent.metadata.proxy.directory import Directory
from neutrino.agent.metadata.proxy.http_proxy import framing_fault, origin_form, render_request, render_response, sign
from neutrino.agent.metadata.proxy.rate_limit import MAX_SOURCES, RateLimiter
from tests.support.metadata import rate_limit

VM = Instance("p1", "blue", "fa:16:3e:00:00:05", ("10.0.0.5", "fd00::5"), "vm-1", "project")


BLUE, RED, GREEN = (Sources({ANY_DEVICE: name}) for name in ("blue", "red", "green"))
ROUTER = Sources({"qr-blue": "blue", "qr-red": "red"})
SERVICE = Sources({ANY_DEVICE: "service"}, ("blue", "red"), "project")


def test_an_address_identifies_on_its_own_network_only() -> None:
    twin = Instance("p2", "red", "fa:16:3e:00:00:06", ("10.0.0.5",), "vm-2", "project")
    directory = Directory([VM, twin])
    assert directory.find(BLUE, "eth0", "10.0.0.5") is VM
    assert directory.find(RED, "eth0", "10.0.0.5") is twin
    assert directory.find(BLUE, "eth0", "fd00::5") is VM
    assert directory.find(GREEN, "eth0", "fd00::5") is None
    assert directory.find(BLUE, "eth0", "10.0.0.6") is None
    assert directory.find(Sources({}), "eth0", "10.0.0.5") is None


def test_in_a_router_the_device_decides_the_network() -> None:
    """An address of one network that arrives from another one is not served: it may have been routed there."""
    directory = Directory([VM])
    for address in VM.addresses:
        assert directory.find(ROUTER, "qr-blue", address) is VM
        assert directory.find(ROUTER, "qr-red", address) is None
        assert directory.find(ROUTER, "qr-gone", address) is None
    assert directory.find(ROUTER, "qr-blue", "fe80::1", VM.mac) is VM
    assert directory.find(ROUTER, "qr-red", "fe80::1", VM.mac) is None


def test_a_metadata_network_answers_routed_instances_of_its_own_project() -> None:
    other = Instance("p2", "red", "fa:16:3e:00:00:06", ("10.0.1.5",), "vm-2", "another")
    local = Instance("p3", "service", "fa:16:3e:00:00:07", ("169.254.169.245",), "vm-3", "another")
    directory = Directory([VM, other, local])
    assert directory.find(SERVICE, "tap0", "10.0.0.5") is VM
    assert directory.find(SERVICE, "tap0", "10.0.1.5") is None
    assert directory.find(SERVICE, "tap0", "169.254.169.245") is local
    assert directory.find(SERVICE, "tap0", "fe80::1", local.mac) is local
    assert directory.find(SERVICE, "tap0", "fe80::1", VM.mac) is None, "its MAC would be the router's"
    twin = Instance("p4", "red", "fa:16:3e:00:00:08", ("10.0.0.5",), "vm-4", "project")
    assert Directory([VM, twin]).find(SERVICE, "tap0", "10.0.0.5") is None, "it may be two"


def test_a_mac_identifies_and_the_address_with_it_does_not() -> None:
    other = Instance("p2", "blue", "fa:16:3e:00:00:06", ("10.0.0.6",), "vm-2")
    directory = Directory([VM, other])
    assert directory.find(BLUE, "eth0", "fe80::1", VM.mac) is VM
    assert directory.find(BLUE, "eth0", "10.0.0.5", other.mac) is other
    assert directory.find(BLUE, "eth0", "10.0.0.5", "") is None, "the kernel has no MAC of it"


def test_two_ports_of_one_instance_identify_it() -> None:
    second = Instance("p2", "red", "fa:16:3e:00:00:06", ("10.0.0.5",), "vm-1", "project")
    found = Directory([VM, second]).find(SERVICE, "eth0", "10.0.0.5")
    assert found is not None
    assert found.instance_id == "vm-1"


@pytest.mark.parametrize("seed", range(5))
def test_an_updated_directory_equals_a_new_one(seed: int) -> None:
    choose, there, directory = random.Random(seed), {}, Directory()
    for _ in range(300):
        key = f"p{choose.randrange(8)}"
        if choose.random() < 0.3:
            there.pop(key, None)
            directory.remove(key)
        else:
            addresses = tuple({f"10.0.0.{choose.randrange(4)}" for _ in range(choose.randrange(3))})
            there[key] = Instance(key, f"n{choose.randrange(2)}", f"m{choose.randrange(3)}", addresses, key)
            directory.put(there[key])
        anew = Directory(there.values())
        assert len(directory) == len(there)
        for sources in (Sources({ANY_DEVICE: "n0"}), Sources({"d": "n1"}), Sources({"d": "n0"}, ("n1",))):
            for number in range(4):
                who = f"10.0.0.{number}", f"m{number}"
                assert directory.find(sources, "d", who[0]) == anew.find(sources, "d", who[0])
                assert directory.find(sources, "d", *who) == anew.find(sources, "d", *who)


# --- headers ----------------------------------------------------------------------------------------------------------


def test_an_instance_cannot_send_identifying_headers() -> None:
    given = [
        (b"host", b"169.254.169.254"),
        (b"X-Instance-Id", b"forged"),
        (b"x_instance_id", b"forged"),
        (b"X-Anything", b"forged"),
        (b"forwarded", b"for=forged"),
        (b"connection", b"keep-alive, cookie"),
        (b"cookie", b"of this connection"),
        (b"accept", b"*/*"),
        (b"content-length", b"3"),
    ]
    sent = render_request(given, "nova:8775", "10.0.0.5", VM, "signature")
    assert sent == [
        (b"host", b"nova:8775"),
        (b"accept", b"*/*"),
        (b"content-length", b"3"),
        (b"x-forwarded-for", b"10.0.0.5"),
        (b"x-instance-id", b"vm-1"),
        (b"x-tenant-id", b"project"),
        (b"x-instance-id-signature", b"signature"),
    ]


def test_a_request_keeps_the_form_of_its_body() -> None:
    sent = render_request([(b"transfer-encoding", b"chunked"), (b"te", b"trailers")], "nova", "10.0.0.5", VM, "")
    assert (b"transfer-encoding", b"chunked") in sent
    assert b"te" not in dict(sent)
    assert render_response([(b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"etag", b"1")]) == [
        (b"etag", b"1")
    ]


def test_ambiguous_framing_is_refused() -> None:
    chunked, length = (b"transfer-encoding", b"chunked"), (b"content-length", b"3")
    assert framing_fault(b"1.1", [chunked]) == framing_fault(b"1.1", [length]) == framing_fault(b"1.0", [length]) == ""
    assert "both" in framing_fault(b"1.1", [chunked, length])
    assert "HTTP/1.1" in framing_fault(b"1.0", [chunked])


def test_the_signature_is_the_one_that_nova_computes() -> None:
    assert sign("vm-1", "secret") == hmac.new(b"secret", b"vm-1", hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/latest?x=1", b"/latest?x=1"),
        (b"http://169.254.169.254/latest", b"/latest"),
        (b"HTTP://169.254.169.254", b"/"),
        (b"nova:8775", None),
        (b"*", None),
    ],
)
def test_only_a_path_is_forwarded(target: bytes, path: bytes | None) -> None:
    assert origin_form(target) == path


# --- rates ------------------------------------------------------------------------------------------------------------


def test_a_source_has_its_share_and_no_more() -> None:
    limiter = RateLimiter(rate_limit((4,), (10, 10), (100, 10)))
    assert [limiter.allows("k", "10.0.0.5", 0.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert limiter.allows("k", "10.0.0.6", 0.0), "others have theirs"
    assert limiter.allows("other", "10.0.0.5", 0.0), "so has the same address elsewhere"
    assert limiter.allows("k", "fd00::5", 0.0), "IPv6 is not limited"
    assert not limiter.allows("k", "10.0.0.5", 10.1), "the window slides: what was before still counts"
    assert limiter.allows("k", "10.0.0.5", 40.0)


def test_the_second_window_is_against_bursts() -> None:
    limiter = RateLimiter(rate_limit((4, 6), (100, 60), (3, 1)))
    assert [limiter.allows("k", "fd00::5", 0.0) for _ in range(4)] == [True, True, True, False]
    assert limiter.allows("k", "fd00::5", 2.5)


def test_a_steady_source_under_the_limit_is_never_refused() -> None:
    limiter = RateLimiter(rate_limit((4,), (10, 10), (10, 10)))
    assert all(limiter.allows("k", "10.0.0.5", second * 1.2) for second in range(1000))


def test_forged_sources_do_not_fill_the_memory() -> None:
    limiter = RateLimiter(rate_limit((4,), (10, 10), (10, 10)))
    for number in range(MAX_SOURCES + 500):
        limiter.allows("k", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(limiter._sources) == MAX_SOURCES
