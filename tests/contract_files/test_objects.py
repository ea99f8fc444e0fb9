"""A store of objects behind a contract file, on a real S3 server: the object's head decides, not the program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from readback.testing.s3_server import S3Server
from tests.contract_files.conftest import Office

UPLOAD = """\
apiVersion: readback/v1
kind: Contracts
contracts:
  upload:
    kind: set
    side_effect: ephemeral_write
    target: object/{requested.key}
    arguments: {key: string, text: string}
    execute:
      command: {argv: [/bin/echo, uploaded, {value: "{requested.key}", argument: data}], cwd: work}
    readers:
      - s3:
          bucket: shelf
          endpoint: {env: STORE}
          region: us-east-1
          access_key: {env: STORE_ACCESS}
          secret_key: {env: STORE_SECRET}
          key: in/{requested.key}
    find:
      s3: {bucket: shelf, endpoint: {env: STORE}, prefix: in/}
    ensure: {same: authoritative.sha256 == sha256(requested.text)}
    within: 1s
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server("shelf") as made:
        yield made


@pytest.mark.requirement("FILE-lies")
def test_an_object_counts_where_the_store_shows_it(
    office: Office, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = server.access
    monkeypatch.setenv("STORE", access["endpoint"])
    monkeypatch.setenv("STORE_ACCESS", access["access_key"])
    monkeypatch.setenv("STORE_SECRET", access["secret_key"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", access["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", access["secret_key"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", access["region"])
    office.write("c.yaml", UPLOAD)
    assert office("contracts", "check", "c.yaml", "--json", code=0).json["readers"][0]["found"] == "absent"
    base = ("run", "upload", "--contracts", "c.yaml", "--json", "--arg", "text=hello")
    lied = office(*base, "--arg", "key=a", "--operation", "1").json
    assert lied["verified"] is False
    server.put("shelf", "in/b", b"hello")
    assert office(*base, "--arg", "key=b", "--operation", "2", code=0).json["verified"] is True
    server.put("shelf", "in/c", b"something else")
    assert office(*base, "--arg", "key=c", "--operation", "3").json["verdict"] == "refuted"
