"""Contracts in a file, over a program that somebody else wrote: what it only claims is found out in the database.

Run it with `python examples/23-contract-file.py`; the contracts stand in `23-contract-file.yaml`.

Prints:
    honest:   reconciled_success
    lying:    review_required, no_op_failure
    label:    reconciled_success
    outside:  not verified; nothing is there: True
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from readback import Readback, contract_files

PROGRAM = """\
import sqlite3, sys
sku, cents = sys.argv[2:]
if sku != "lamp":  # it says that it is done all the same
    with sqlite3.connect("shop.db") as shop:
        shop.execute("update articles set cents = ?, version = version + 1 where sku = ?", (int(cents), sku))
print("done")
"""

folder = tempfile.TemporaryDirectory()
work = Path(folder.name)
shutil.copy(Path(__file__).with_suffix(".yaml"), work / "shop.yaml")
(work / "set_price").write_text(f"#!{sys.executable}\n{PROGRAM}", encoding="utf-8")
(work / "set_price").chmod(0o755)
for name in ("labels", "shop"):  # what the actions change lies apart from the contracts and the ledger
    (work / name).mkdir()
with closing(sqlite3.connect(work / "shop" / "shop.db")) as shop:
    shop.execute("create table articles (sku text primary key, cents integer, version integer)")
    shop.execute("insert into articles values ('mug', 900, 1), ('lamp', 4900, 1)")
    shop.commit()

actions = contract_files(work / "shop.yaml")
with Readback.open(f"sqlite:///{work}/readback.db", tenant="acme", principal="agent:pricing") as rb:
    honest = rb.run(actions["set_price"](sku="mug", cents=950))
    print(f"honest:   {honest.state}")
    lying = rb.run(actions["set_price"](sku="lamp", cents=5_000))
    print(f"lying:    {lying.state}, {lying.discrepancy}")
    label = rb.run(actions["write_label"](sku="mug", text="A mug"), operation="label mug")
    print(f"label:    {label.state}")
    outside = rb.run(actions["write_label"](sku="../../mug", text="A mug"), operation="label outside")
    there = os.path.exists(work.parent / "mug.txt")
    print(f"outside:  {'verified' if outside.verified else 'not verified'}; nothing is there: {not there}")
folder.cleanup()
