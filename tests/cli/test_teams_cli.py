"""`agentos teams` against a real gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.gateways import Gateway

from agentos.cli.client import Client
from agentos.cli.named import TEAM, find
from agentos.cli.profile import SignIn
from agentos.kernel.errors import Invalid, NotFound

from .conftest import Cli, FakeGateway, Request

EXAMPLE = Path(__file__).parents[2] / "examples" / "teams" / "news-desk.yaml"

CREW = """
name: Crew
model: demo
leader: {name: lead, role: Leads, instructions: "Be\\nbrief."}
workers:
  - {name: scout, role: Looks things up}
"""


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    key = await gateway.api_key((await gateway.tenant()).tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


@pytest.fixture
def crew_file(tmp_path: Path) -> str:
    place = tmp_path / "crew.yaml"
    place.write_text(CREW)
    return str(place)


async def test_an_empty_list_says_what_to_do(owner: Cli) -> None:
    assert "agentos teams create --template" in (await owner("teams", "list")).out
    none = await owner("teams", "list", "--status", "running")
    assert none.out == "There is no such team.\n"
    assert "crash_loop" in (await owner("teams", "list", "--status", "odd", code=2)).err
    lost = await owner("teams", "show", "nobody", code=5)
    assert "`agentos teams list` shows" in lost.err


async def test_from_a_template(owner: Cli) -> None:
    listed = (await owner("teams", "templates")).out
    assert re.search(r"software-crew +tech-lead, developer, tester, reviewer ", listed)
    made = await owner(
        *("teams", "create", "--template", "software-crew", "--name", "Builders"),
        *("--model", "demo", "--deploy"),
    )
    assert "Made the team Builders with 4 agents. Next: `agentos chat Builders" in made.out
    assert re.search(r"Builders +running +native +demo +4 ", (await owner("teams", "list")).out)
    assert (await owner("teams", "create", "--template", "no-such", code=5)).err
    assert (await owner("teams", "create", code=2)).err
    other = ("teams", "create", "--template", "software-crew", "--provider", "magic")
    assert "claude-code" in (await owner(*other, code=2)).err


async def test_life_of_a_team(owner: Cli, crew_file: str, tmp_path: Path) -> None:
    made = (await owner("teams", "create", "--file", crew_file, "--json")).json
    assert (made["status"], made["agents"]) == ("stopped", 2)
    taken = await owner("teams", "import", crew_file, code=6)
    assert "Another team is called Crew." in taken.err
    await owner("teams", "import", "-", "--name", "Crew 2", stdin=CREW)
    shown = (await owner("teams", "show", "crew")).out
    assert f"Team      Crew ({made['id']})" in shown
    assert re.search(r"scout +worker +the team's +Looks things up", shown)
    assert "agentos teams deploy Crew" in shown
    deployed = await owner("teams", "deploy", made["id"][-12:], "--wait")
    assert deployed.out == "The team Crew is running.\n"
    assert 'agentos chat Crew "…"' in (await owner("teams", "show", "Crew")).out
    assert (await owner("teams", "restart", "Crew", "--json")).json["status"] == "running"
    refused = await owner("teams", "delete", "Crew", "--yes", code=6)
    assert "Stop it first" in refused.err
    assert (await owner("teams", "stop", "Crew")).out == "The team Crew is stopped.\n"
    assert "Add --yes" in (await owner("teams", "delete", "Crew", code=2)).err
    assert "Deleted the team Crew." in (await owner("teams", "delete", "Crew", "--yes")).out
    assert [row["name"] for row in (await owner("teams", "list", "--json")).json] == ["Crew 2"]
    place = tmp_path / "out.yaml"
    await owner("teams", "export", "Crew 2", "-o", str(place))
    assert _names(tmp_path, "out*") == ["out.yaml"]
    exported = yaml.safe_load(place.read_text())
    assert exported["leader"]["instructions"] == "Be\nbrief."
    assert (await owner("teams", "export", "Crew 2")).out == place.read_text()
    again = await owner("teams", "import", str(place), "--name", "Crew 3", "--deploy", "--json")
    assert again.json["workers"][0]["name"] == "scout"


def _names(place: Path, pattern: str) -> list[str]:
    return [path.name for path in place.glob(pattern)]


async def test_changes(owner: Cli, crew_file: str, tmp_path: Path) -> None:
    await owner("teams", "import", crew_file)
    assert (await owner("teams", "update", "Crew", code=2)).err
    changed = await owner(
        *("teams", "update", "Crew", "--model", "auto", "--allow-host", "example.com"),
        *("--answer-seconds", "60", "--description", "For tests"),
    )
    assert changed.out == "The team Crew is at version 2.\n"
    told = tmp_path / "lead.md"
    told.write_text("Say little.\n")
    lead = ("teams", "set-agent", "Crew", "lead")
    assert "version 3" in (await owner(*lead, "--instructions-file", str(told))).out
    one = await owner("teams", "agents", "Crew", "--agent", "lead")
    assert one.out == "lead: Leads\n\nSay little.\n\n"
    scout = ("teams", "set-agent", "Crew", "scout")
    await owner(*scout, "--model", "demo", "--rename", "ranger")
    listed = (await owner("teams", "agents", "Crew", "--json")).json
    assert [(row["name"], row["model"]) for row in listed] == [("lead", None), ("ranger", "demo")]
    typo = await owner(*scout, "--role", "x", code=5)
    assert "There are: lead, ranger." in typo.err
    await owner("teams", "set-agent", "Crew", "critic", "--new", "--role", "Criticises")
    twice = await owner("teams", "set-agent", "Crew", "critic", "--new", code=6)
    assert "--new" in twice.err
    await owner("teams", "remove-worker", "Crew", "ranger")
    assert "ranger" not in (await owner("teams", "agents", "Crew")).out
    assert (await owner("teams", "remove-worker", "Crew", "ranger", code=5)).err


async def test_documents_that_are_none(owner: Cli, tmp_path: Path) -> None:
    place = tmp_path / "team.yaml"
    for text in ("[]", "name: [", "name: a\nname: b", "at: 2030-01-01", "a: .inf"):
        place.write_text(text)
        refused = await owner("teams", "create", "--file", str(place), code=2)
        assert refused.err.startswith("Error: ")
    assert (await owner("teams", "create", "--file", str(tmp_path / "none"), code=5)).err
    wrong = await owner("teams", "create", "--file", "-", stdin="name: x", code=2)
    assert "leader" in wrong.err


async def test_the_example(owner: Cli) -> None:
    made = (await owner("teams", "import", str(EXAMPLE), "--deploy", "--json")).json
    assert made["status"] == "running"
    assert len(made["workers"]) == 2


# Which one is meant

ONE = "01890000-0000-7000-8000-00000000aaaa"
OTHER = "01890000-0000-7000-8000-00000001bbbb"


def _client(fake: FakeGateway, **names: str) -> Client:
    rows = [{"id": each, "name": name} for name, each in names.items()]

    def answer(_: Request) -> Any:
        return 200, {"items": rows, "next_cursor": None}

    fake.handler = answer
    return Client(fake.url, SignIn(api_key="sk"))


def test_a_whole_id_is_not_looked_up(fake: FakeGateway) -> None:
    assert find(_client(fake), TEAM, ONE.upper()) == ONE
    assert fake.seen == []


@pytest.mark.parametrize("given", ["One", " one ", "aaaa", "0000aaaa"])
def test_a_name_or_a_part_of_the_id_is_enough(given: str, fake: FakeGateway) -> None:
    assert find(_client(fake, One=ONE, Other=OTHER), TEAM, given) == ONE


def test_a_name_goes_before_an_id(fake: FakeGateway) -> None:
    assert find(_client(fake, One=ONE, aaaa=OTHER), TEAM, "aaaa") == OTHER


def test_what_fits_several_names_them(fake: FakeGateway) -> None:
    with pytest.raises(Invalid, match=f"One \\({ONE}\\), Other"):
        find(_client(fake, One=ONE, Other=OTHER), TEAM, "0189")


def test_what_fits_none_may_be_a_typo(fake: FakeGateway) -> None:
    with pytest.raises(NotFound) as raised:
        find(_client(fake, Builders=ONE), TEAM, "bilders")
    assert "Did you mean Builders?" in (raised.value.advice or "")
