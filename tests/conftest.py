"""What holds for every test: no settings from outside, no network but loopback, one seed.

Time and ids come from the runtime port; a test that needs another moment moves the clock, it never waits.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres import ledger_server, ledger_url
from tests.workers.watchdog import deals, watch

__all__ = ["ledger_server", "ledger_url"]

# Derandomised: the same commit gives the same run. `--hypothesis-profile=search` looks further, by hand.
settings.register_profile("suite", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `make quick`: the same tests with fewer examples of each.
settings.register_profile("quick", derandomize=True, deadline=None, database=None, print_blob=True, max_examples=10)
settings.load_profile("suite")

# A shell starts what runs in its background with interrupts ignored; tests press the keys, and wait for an answer.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_KEPT_SETTINGS = {"READBACK_CRASH_ROUNDS", "READBACK_SOAK_SECONDS"}
_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "", None}
# Reserved for names that must not exist; a test may ask for them to see an honest failure.
_NOWHERE = (".invalid", ".test", ".example")
_strays: list[str] = []


def _stay_at_home(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse what leaves this machine, and remember it: the code under test may swallow the refusal."""
    match event:
        case "socket.connect":
            address = arguments[1]
            if not isinstance(address, tuple) or address[0] in _LOOPBACK:
                return
            host = str(address[0])
        case "socket.getaddrinfo":
            name = arguments[0]
            host = name.decode() if isinstance(name, bytes) else name  # type: ignore[assignment]
            if host in _LOOPBACK:
                return
        case _:
            return
    if not host.endswith(_NOWHERE):
        _strays.append(host)
    raise socket.gaierror(socket.EAI_NONAME, f"tests reach loopback only, not {host}")


sys.addaudithook(_stay_at_home)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--learn-longest", action="store_true", help="write tests/workers/longest.txt from this run")


def pytest_configure(config: pytest.Config) -> None:
    """A test that hangs fails, and a run ends."""
    watch(config)
    if deals(config) and config.getoption("learn_longest"):
        from tests.workers.order import Learner

        config.pluginmanager.register(Learner())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from tests.workers.order import scheduler

    return scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest come first where several share them; what needs the whole to be there comes last."""
    if hasattr(config, "workerinput"):
        from tests.workers.order import longest_first

        longest_first(items)
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What was collected stays until the end: looking through all of it for rubbish, again and again, finds none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No READBACK_* variable and no user configuration reaches a test, which gets this empty home."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    os.environ.update({"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")})
    for name in _settings():
        del os.environ[name]
    return home


@pytest.fixture(autouse=True)
def the_collector_is_given_back() -> Iterator[None]:
    """A test that leaves collections rare or off leaves later tests with the open files of circles."""
    before = gc.isenabled(), gc.get_threshold()
    yield
    assert (gc.isenabled(), gc.get_threshold()) == before


@pytest.fixture(autouse=True)
def own_files_of_this_test_alone() -> Iterator[None]:
    """A process registers its own files for good. Here many tests share one process, and each forgets its files."""
    registry = sys.modules.get("readback.contracts.documents.own_files")
    before = [dict(kept) for kept in (registry._FILES, registry._FOLDERS)] if registry is not None else [{}, {}]
    yield
    registry = sys.modules.get("readback.contracts.documents.own_files")
    if registry is not None:
        for kept, earlier in zip((registry._FILES, registry._FOLDERS), before, strict=True):
            kept.clear()
            kept.update(earlier)


def _settings() -> list[str]:
    return [name for name in os.environ if name.startswith("READBACK_") and name not in _KEPT_SETTINGS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Each test stayed here and left no setting to the next. No fixture: most tests are shorter than one."""
    yield
    left, strays = _settings(), _strays[:]
    _strays.clear()
    for name in left:
        del os.environ[name]
    assert not left, f"settings are taken back where they were made: {left}"
    # Also where the attempt was swallowed.
    assert not strays, f"tests reach loopback only; this one tried {strays}"
