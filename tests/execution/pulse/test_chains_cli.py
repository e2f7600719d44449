"""`agentos chains`, as it is typed; and the examples, as they are."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.conftest import Cli, Result
from tests.execution.pulse.conftest import Lab, script

from agentos.execution.pulse.chains.advance import keep_advancing
from agentos.execution.pulse.chains.reading import read_yaml

EXAMPLES = Path(__file__).parents[3] / "examples" / "chains"


_COMMAND = """
import sys
from agentos.cli.main import COMMANDS, Lazy, run
COMMANDS.setdefault("chains", Lazy("chains", "Sessions that build upon each other."))
sys.exit(run(["chains", *sys.argv[1:]]))
"""


class ChainsCli(Cli):
    async def __call__(self, *args: str, stdin: str = "", code: int = 0, **env: str) -> Result:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _COMMAND, *args),
            env=self.env | env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        result = Result(process.returncode or 0, out.decode(), err.decode())
        assert result.code == code, f"{args} ended with {result}"
        return result


@pytest.fixture
async def cli(lab: Lab, tmp_path: Path) -> ChainsCli:
    key = await lab.gateway.api_key(lab.person.tenant_id)
    return ChainsCli(
        {
            "PATH": str(Path(sys.executable).parent),
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "PYTHONWARNINGS": "error",
            "AGENTOS_URL": lab.gateway.url,
            "AGENTOS_API_KEY": key,
        }
    )


@pytest.fixture
async def worker(lab: Lab) -> AsyncIterator[None]:
    async with lab.engine():
        task = asyncio.create_task(keep_advancing(lab.parts))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def written(path: Path, nodes: dict[str, Any], **chain: Any) -> str:
    with_model = {name: {"model": "demo", **node} for name, node in nodes.items()}
    path.write_text(yaml.safe_dump({"name": "typed", "nodes": with_model, **chain}))
    return str(path)


@pytest.mark.usefixtures("worker")
async def test_a_chain_is_run_shown_and_listed(cli: ChainsCli, tmp_path: Path) -> None:
    file = written(
        tmp_path / "chain.yaml",
        {
            "each": {"prompt": script("say {{ item }}"), "for_each": "inputs.list"},
            "end": {"prompt": script("say {{ inputs.word }}: {{ nodes.each.output }}")},
        },
        inputs={"list": None, "word": None},
        output="nodes.end.text",
    )
    checked = await cli("check", file)
    assert checked.out.splitlines() == [
        "The chain typed is valid.",
        "  1. each",
        "  2. end",
        "Give it with --input: list, word.",
    ]
    await cli("run", file, code=2)
    done = await cli("run", file, "--input", "word=a=b", "--input", "list:=[1, 2]", "--wait")
    lines = done.out.splitlines()
    assert any(line.startswith("each  COMPLETE  2/2") for line in lines), lines
    assert lines[-1] == 'a=b: ["1","2"]'

    (listed,) = (await cli("list", "--json")).json
    assert (listed["name"], listed["state"]) == ("typed", "COMPLETE")
    shown = (await cli("show", listed["id"])).out
    assert shown.startswith("typed  COMPLETE  100 %\n")
    assert "each[1]" in shown
    again = await cli("retry", listed["id"], "--node", "end", "--wait", "--json")
    assert again.json["output"] == 'a=b: ["1","2"]'
    assert (await cli("cancel", listed["id"], code=6)).err.startswith(
        "Error: The chain is COMPLETE"
    )


@pytest.mark.usefixtures("worker")
async def test_a_chain_that_fails_says_so_with_its_exit_code(
    cli: ChainsCli, tmp_path: Path
) -> None:
    file = written(tmp_path / "chain.yaml", {"bad": {"prompt": script("fail invalid No way.")}})
    failed = await cli("run", file, "--wait", code=1)
    assert "FAILED: bad failed:" in failed.out


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["run", "-", "--input", "nothing"], "is not an input"),
        (["run", "-", "--input", "x:={"], "is not JSON"),
        (["check", "-"], "in a circle: a → a"),
    ],
)
async def test_what_is_wrong_is_told(cli: ChainsCli, args: list[str], told: str) -> None:
    circle = "{name: x, nodes: {a: {prompt: p, needs: [a]}}}"
    assert told in (await cli(*args, stdin=circle, code=2)).err
    assert "is not a chain" in (await cli("check", "-", stdin="[]", code=2)).err


def examples() -> list[Path]:
    found = sorted(EXAMPLES.glob("*.yaml"))
    assert found
    return found


async def test_examples_are_valid(lab: Lab) -> None:
    for path in examples():
        document = read_yaml(path.read_bytes())
        await lab.post("/api/chains/check", **document)


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("name", "values"), [("haiku", {}), ("review", {"change": "+1 line", "strict": True})]
)
async def test_examples_run(lab: Lab, name: str, values: dict[str, Any]) -> None:
    document = read_yaml((EXAMPLES / f"{name}.yaml").read_bytes())
    for node in document["nodes"].values():
        node["model"] = "demo"
    chain = await lab.post("/api/chains", 201, **document, values=values)
    async with asyncio.timeout(60):
        while chain["state"] == "RUNNING":
            await asyncio.sleep(0.05)
            chain = (await lab.client.get(f"/api/chains/{chain['id']}")).json()
    assert chain["state"] == "COMPLETE", chain
    assert chain["output"]
